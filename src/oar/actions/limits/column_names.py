"""Column names, and what they tell of whether anybody can change the column, and may be asked to.

| what names tell | such as | what follows |
| --- | --- | --- |
| who people are, where from, and whom they live with | age, sex, skin, country, language, dependants | stays |
| people's bodies and health | height, diabetes, surgery, disability, pregnancies | stays |
| what has happened | times late, defaults, credit history, previous …, prison, claims | stays |
| time that has passed, but of a tenure that is rented or owned | months since …, experience, years at … | stays |
| codes of places, of people and of moments, but of categories | zip code, phone, account number, date | stays |

Words count, not parts of them: `household_size` stays, and `household_income` does not.
"""

from __future__ import annotations

import re
import unicodedata

from oar.people.tables.schema import Column

# English, German, French, Spanish, Italian, Portuguese, Dutch; without accents, with which names are written or not.
_OF = r"[\W_](?:\w{1,3}[\W_])?"  # between two words: "_", or " of ", "_de_"
_UNCHOSEN = (
    r"aged?|age(?:group|cat|band|range|bin|class|years)|sex|gender|race|racial|ethnic(?:ity)?|\w*birth\w*|born|[dy]ob"
    r"|alter(?:sgruppe|sklasse)?|jahrgang|geschlecht|geburt\w*|ethnie|sexe|naissance|edad|sexo|genero|raza|etnia"
    r"|nacimiento|sesso|genere|nascita|idade|raca|nascimento|leeftijd\w*|geslacht|geboorte\w*",
    r"(?:fe)?males?|wom[ae]n|white|black|asian|hispanic|latin[oax]|minorit(?:y|ies)|weiblich|mannlich|frau|mann"
    r"|minderheit|femme|homme|feminin[oa]?|masculin[oa]?|minorite|mujer|hombre|femenin[oa]|minoria|donna|uomo|femmina"
    r"|maschio|minoranza|mulher|homem|vrouw(?:elijk)?|mannelijk|minderheid",
    r"nationality|citizen(?:ship)?|native|nativity|countr(?:y|ies)|origins?|foreign(?:er|born)?|(?:im)?migrants?|refugee"
    r"|nationalitat|staatsangehorigkeit|staatsburgerschaft|herkunft\w*|heimatland|auslander\w*|fluchtling"
    r"|nationalite|citoyennete|pays|origine|etranger\w*|refugie|nacionalidad|ciudadania|pais|origen|extranjer[oa]"
    r"|refugiad[oa]|nazionalita|cittadinanza|paese|stranier[oa]|rifugiat[oa]|nacionalidade|cidadania|origem"
    r"|estrangeir[oa]|nationaliteit|burgerschap|herkomst|buitenlander|vluchteling",
    r"(?:mother[\W_]?)?tongue|languages?|(?:mutter)?sprache|langue|idioma|lengua|lingua|(?:moeder)?taal",
    rf"religion|religious|muslim|christian|jewish|hindu|buddhist|caste|konfession|religione|religiao|religie|godsdienst"
    rf"|sexual{_OF}orientation",
    rf"marital|married|marriage|divorced?|widow(?:ed|er)?|(?:civil|personal|relationship){_OF}status|relationship"
    rf"|(?:family|fam){_OF}(?:status|size|members)|familienstand|verheiratet|geschieden|verwitwet"
    rf"|(?:etat|estado|stato){_OF}civile?|situation{_OF}(?:familiale|matrimoniale)|matrimonial|burgerlijke{_OF}staat|gehuwd",
    rf"depend[ae]nts?|children|kids|household{_OF}(?:size|members|people|persons)|people{_OF}household"
    r"|siblings|brothers|sisters|orphan|parents?|parental|mothers?|fathers?|spouse|husband|wife|veteran|retired"
    r"|kinder|kinderzahl|unterhaltspflichtige|haushaltsgro\w+|haushaltsmitglieder|familiengro\w+|geschwister|waise"
    rf"|enfants|personnes{_OF}charge|taille{_OF}(?:menage|foyer|famille)|fratrie|orphelin|hijos|dependientes"
    rf"|tamano{_OF}(?:hogar|familia)|hermanos|huerfan[oa]|jubilad[oa]|figli|(?:familiari|persone){_OF}carico"
    rf"|nucleo{_OF}familiare|fratelli|orfan[oa]|pensionat[oa]|filhos|dependentes|irmaos|orfao|aposentad[oa]|kinderen"
    r"|gezinsgrootte|gezinsleden|gepensioneerd",
    rf"(?:eyes?|hair){_OF}colou?r|colou?r{_OF}(?:eyes?|hair)|skin|complexion|height|body[\W_]?weight|iq|shoe[\W_]?size"
    r"|hautfarbe|augenfarbe|haarfarbe|korpergro\w+|korpergewicht|schuhgro\w+|peau|piel|estatura|statura|altezza|pelle"
    r"|altura|pele|huidskleur|lichaamslengte",
    r"disab\w+|handicap|pregnan\w+|cancer|diabet\w+|hiv|surger(?:y|ies)|diagnos\w+|diseases?|illness(?:es)?|symptoms?"
    r"|behinderung|schwanger\w*|krebs|krank\w*|symptom\w*|enceinte|grossesses?|maladies?|discapacidad|embaraz\w+"
    r"|enfermedad\w*|cirugias?|sintom\w+|disabilita|gravidanz\w+|incinta|malatti\w+|deficiencia|gravidez|doencas?"
    r"|cirurgias?|zwanger\w*|ziektes?|kanker",
)
_CODES = (
    r"zip(?:[\W_]?code)?|(?:post|postal|area)[\W_]?code|plz|(?:tele)?phone(?:[\W_](?:no|number))?"
    r"|ssn(?:[\W_]\w+)?|iban|account[\W_](?:no|number)|timestamp|ts|date|datum|yyyymm(?:dd)?"
    r"|lat|latitude|lon|lng|longitude|(?:tele)?fon|mobile|weekday|month|year|hour|day"
)
_TENURE = r"tenure|seniority|residence"  # of numbers
_POSTS = r"(?:address|job|work|company|role|position|home|employ(?:ment|er)|residence|service)"
_PASSED = (
    rf"since|experience|(?:years?|yrs?|months?|mths?|weeks?|days?|time|length|duration)[\W_](?:as|employed|worked"
    rf"|of[\W_](?:experience|employment|residence|service)|(?:at|in)[\W_](?:\w+[\W_])?{_POSTS})"
    rf"|(?:years?|yrs?|months?|mths?)[\W_](?:at|in|on|with)|(?:weeks?|days?)[\W_]at"
    rf"|(?:emp|{_POSTS})[\W_](?:years?|yrs?|months?|length|duration)|working[\W_]years|yoe|mob"
    r"|seit|(?:berufs)?erfahrung|betriebszugehorigkeit|dienstjahre|beschaftigungsdauer|wohndauer|depuis|anciennete"
    r"|desde|experiencia|antiguedad|esperienza|anzianita|antiguidade|sinds|(?:werk)?ervaring|dienstjaren"
)
_LATE = r"(?:late|past[\W_]?due|missed|overdue)"
_HAPPENED = (
    r"complaints?|incidents?|accidents?|claims|violations?|offen[cs]es?|(?:in|en)quir(?:y|ies)|evictions?"
    r"|beschwerden|mahnungen|vorstrafen|plaintes|reclamations|quejas|reclamos|reclami|reclamacoes|klachten"
    r"|de?l(?:in)?q(?:uenc(?:y|ies))?|bankruptc(?:y|ies)|foreclosures?|priors|charged?[\W_]?offs?|derog(?:atory)?"
    r"|default(?:s|ed)?|dpd|days[\W_]past[\W_]due|collections|liens?|judge?ments?|pub(?:lic)?[\W_]rec(?:ords?)?"
    r"|prison|jail|imprison\w+|incarcerat\w+|criminal|crimes?|convict(?:ed|ions?)|arrest(?:s|ed)?|felon(?:y|ies)|fel"
    r"|misdemeanou?rs?|misd|juv(?:enile)?|recid\w*|previous(?:ly)?|prior|past(?![\W_]?due)|history|pay(?=[\W_]?\d{1,2}$)"
    r"|zahlungsausfall|ausfalle?|gefangnis|haft|straftat(?:en)?|verurteil\w+|insolvenz(?:en)?|schaden|vorherige\w*|fruhere\w*"
    r"|defauts?|impayes?|condamn\w+|faillites?|sinistres?|precedent\w*|historique|impagos?|incumplimientos?|prision"
    r"|carcel|conden\w+|quiebras?|siniestros?|antecedentes|anterior\w*|historial|insolvenz[ae]|prigione|carcere|condann\w+"
    r"|falliment[oi]|sinistri|storico|inadimplencias?|prisao|cadeia|falencias?|sinistros?|historico|wanbetaling(?:en)?"
    r"|gevangenis|veroordel\w+|faillissement(?:en)?|strafblad|schades|eerdere|vorige"
    rf"|late[\W_]?(?:payments?|\d+)|missed[\W_]payments?"
    rf"|(?:number|num|count|times?)(?=[\W_\d])(?:.*[\W_])?{_LATE}"
)
# What is said of a column of numbers such as 2014, if its name tells that they are years.
_YEARS = (
    r"years?|yrs?|yyyy|opened|built|founded|registered|issued|joined|started|since|vintage|jahr|baujahr|annee|ano|anno|jaar"
    r"|seit|depuis|desde|sinds"
)
_AMOUNTS = (
    r"amounts?|incomes?|salary|wages?|pay|prices?|costs?|values?|balance|debts?|loans?|credit|rent|revenue|sales|spent|capital"
    r"|weight|betrag|einkommen|gehalt|lohn|preis|kosten|miete|revenu|salaire|prix|montant|ingresos?|precio|importo|reddito|bedrag"
)


def _word(pattern: str, end: str = r"(?:$|[\W_\d])") -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\W_])(?:{pattern}){end}", re.IGNORECASE)


UNCHOSEN = _word("|".join(_UNCHOSEN), r"\d*(?:$|[\W_])")
ACCENTED = _word("età", r"(?:$|[\W_])")  # which without its accent is a Greek letter
CODES = _word(_CODES, "$")
TENURE, PASSED, HAPPENED = _word(_TENURE), _word(_PASSED), _word(_HAPPENED)
YEARS, AMOUNTS = _word(_YEARS), _word(_AMOUNTS)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # where a word begins in ZipCode, and HIVStatus


def why_still(column: Column) -> str | None:
    """Say why nobody is asked to change a column, by its name; None where its name does not tell that.

    >>> why_still(Column("NumberOfDependents", "integer")), why_still(Column("household_income", "integer"))
    ('which nobody is asked to change', None)
    >>> why_still(Column("late_30_59", "integer")), why_still(Column("amount_past_due", "integer"))
    ('which has happened', None)
    """
    words = _words(column.name)
    if UNCHOSEN.search(words) or ACCENTED.search(unicodedata.normalize("NFC", column.name)):
        return "which nobody is asked to change"
    if HAPPENED.search(words):  # it cannot be undone, and nobody is asked to be late once more
        return "which has happened"
    number = column.kind in ("number", "integer")
    if PASSED.search(words) or (number and TENURE.search(words)):  # a tenure may be rented or owned
        return "time that has passed"
    return "a code, and no amount" if number and CODES.search(words) else None


def called_years(name: str) -> bool:
    """Report whether a column's name tells that its numbers are years, if they may be.

    >>> called_years("year_opened"), called_years("rent")
    (True, False)
    """
    return YEARS.search(_words(name)) is not None


def called_an_amount(name: str) -> bool:
    """Report whether a column's name tells that its numbers are amounts, and name nobody."""
    return AMOUNTS.search(_words(name)) is not None


def _words(name: str) -> str:
    """Return a name with its words apart, and without accents."""
    apart = unicodedata.normalize("NFKD", CAMEL.sub("_", name))
    return "".join(letter for letter in apart if not unicodedata.combining(letter))

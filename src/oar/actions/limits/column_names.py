"""Column names, and what they tell of whether anybody can change the column, and may be asked to.

| what names tell | such as | what follows |
| --- | --- | --- |
| who people are, and whom they live with | age, sex, religion, citizenship, marital status, dependants | stays |
| codes of places, of people and of moments | zip code, phone, account number, date | stays |
| time that has passed, but of categories | months since …, tenure, years at … | stays |
| what has happened | times late, delinquencies, bankruptcies, convictions | stays |

Words count, not parts of them: `household_size` stays, and `household_income` does not.
"""

from __future__ import annotations

import re
import unicodedata

from oar.people.tables.schema import Column

# English, German, French, Spanish, Italian, Portuguese, Dutch; without accents, with which names are written or not.
_OF = r"[\W_](?:\w{1,3}[\W_])?"  # between two words: "_", or " of ", "_de_"
_UNCHOSEN = (
    r"age|sex|gender|race|racial|ethnic(?:ity)?|birth(?:day|date|place)?|born|dob|disab(?:led|ility)"
    r"|alter|geschlecht|geburt\w*|ethnie|behinderung|sexe|naissance|handicap|edad|sexo|genero|raza|etnia|nacimiento"
    r"|discapacidad|sesso|genere|nascita|disabilita|idade|raca|nascimento|deficiencia|leeftijd|geslacht|geboorte\w*",
    rf"nationality|citizen(?:ship)?|native{_OF}country|country{_OF}birth|foreign{_OF}worker|immigrant"
    r"|nationalitat|staatsangehorigkeit|staatsburgerschaft|nationalite|citoyennete|nacionalidad|ciudadania"
    r"|nazionalita|cittadinanza|nacionalidade|cidadania|nationaliteit|burgerschap",
    rf"religion|religious|caste|konfession|religione|religiao|religie|godsdienst|sexual{_OF}orientation",
    rf"marital|married|marriage|divorced|widowed|civil{_OF}status|(?:family|fam){_OF}(?:status|size|members)"
    rf"|familienstand|verheiratet|geschieden|verwitwet|(?:etat|estado|stato){_OF}civile?"
    rf"|situation{_OF}(?:familiale|matrimoniale)|matrimonial|burgerlijke{_OF}staat|gehuwd",
    rf"depend[ae]nts?|children|kids|household{_OF}(?:size|members|people|persons)|people{_OF}household"
    r"|kinder|kinderzahl|unterhaltspflichtige|haushaltsgro\w+|haushaltsmitglieder|familiengro\w+"
    rf"|enfants|personnes{_OF}charge|taille{_OF}(?:menage|foyer|famille)|hijos|dependientes|tamano{_OF}(?:hogar|familia)"
    rf"|figli|(?:familiari|persone){_OF}carico|nucleo{_OF}familiare|filhos|dependentes|kinderen|gezinsgrootte|gezinsleden",
)
_CODES = (
    r"zip(?:[\W_]?code)?|(?:post|postal|area)[\W_]?code|plz|(?:tele)?phone(?:[\W_](?:no|number))?"
    r"|ssn(?:[\W_]\w+)?|iban|account[\W_](?:no|number)|timestamp|ts|date|datum|yyyymm(?:dd)?"
    r"|lat|latitude|lon|lng|longitude|(?:tele)?fon|mobile|weekday|month|year|hour|day"
)
_PASSED = (
    r"since|tenure|seniority|(?:years?|yrs|months?|weeks?|days?)[\W_](?:at|as|employed"
    r"|of[\W_](?:experience|service|employment))|seit|depuis|desde|sinds"
)
_LATE = r"(?:late|past[\W_]?due|missed|overdue)"
_HAPPENED = (
    r"complaints?|incidents?|accidents?|claims|violations?|offen[cs]es?|(?:in|en)quir(?:y|ies)|evictions?"
    r"|beschwerden|mahnungen|vorstrafen|plaintes|reclamations|quejas|reclamos|reclami|reclamacoes|klachten"
    r"|delinq(?:uency|uencies)?|bankruptc(?:y|ies)|foreclosures?|convictions?|arrests?|priors|charge[\W_]?offs?"
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


UNCHOSEN = _word("|".join(_UNCHOSEN), r"(?:$|[\W_])")
ACCENTED = _word("età", r"(?:$|[\W_])")  # which without its accent is a Greek letter
CODES = _word(_CODES, "$")
PASSED, HAPPENED = _word(_PASSED), _word(_HAPPENED)
YEARS, AMOUNTS = _word(_YEARS), _word(_AMOUNTS)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # where a word begins in ZipCode


def why_still(column: Column) -> str | None:
    """Say why nobody is asked to change a column, by its name; None where its name does not tell that.

    >>> why_still(Column("NumberOfDependents", "integer")), why_still(Column("household_income", "integer"))
    ('which nobody is asked to change', None)
    >>> why_still(Column("late_30_59", "integer")), why_still(Column("days_past_due", "integer"))
    ('which has happened', None)
    """
    words = _words(column.name)
    if UNCHOSEN.search(words) or ACCENTED.search(unicodedata.normalize("NFC", column.name)):
        return "which nobody is asked to change"
    if HAPPENED.search(words):  # it cannot be undone, and nobody is asked to be late once more
        return "which has happened"
    if column.kind in ("boolean", "category"):  # a tenure that is rented or owned
        return None
    if PASSED.search(words):
        return "time that has passed"
    return "a code, and no amount" if column.kind != "ordinal" and CODES.search(words) else None


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

import subprocess
import sys

import pytest

import oar


def test_without_torch_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        oar.errors.OptionError, match=r"needs PyTorch, which is not installed; pip install 'oar-recourse\[torch"
    ):
        oar.models.from_torch(object(), loss="cross-entropy")


def test_neither_oar_nor_its_models_import_torch():
    code = "import sys, oar, oar.models, oar.testing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

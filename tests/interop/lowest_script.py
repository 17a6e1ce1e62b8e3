"""What runs beside the lowest transformers: it must not import anyorder."""

SCRIPT = """
import sys, ast
from pathlib import Path
import torch, transformers
from transformers import (
    AutoModel, AutoModelForMultipleChoice, AutoModelForQuestionAnswering, AutoModelForSequenceClassification,
    AutoTokenizer, XLNetLMHeadModel, XLNetTokenizer,
)

folder, version, encoded = Path(sys.argv[1]), sys.argv[2], ast.literal_eval(sys.argv[3])
assert transformers.__version__.startswith(version), transformers.__version__
expected = torch.load(folder / "expected.pt", weights_only=True)
model = XLNetLMHeadModel.from_pretrained(folder / "exported").eval()
with torch.no_grad():
    logits = model(input_ids=expected["ids"], use_mems=False).logits
torch.testing.assert_close(logits, expected["logits"], rtol=0, atol=2e-5)
for auto in (AutoModel, AutoModelForSequenceClassification, AutoModelForMultipleChoice, AutoModelForQuestionAnswering):
    loaded = auto.from_pretrained(folder / "exported")
    own = loaded.state_dict()
    prefix = "" if auto is AutoModel else "transformer."
    assert torch.equal(own[prefix + "layer.1.rel_attn.q"], model.state_dict()["transformer.layer.1.rel_attn.q"])
for kind in (AutoTokenizer, XLNetTokenizer):
    tokenizer = kind.from_pretrained(folder / "exported")
    for text, ids in zip(expected["texts"], encoded):
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == ids, (type(tokenizer), text)
model.save_pretrained(folder / "saved")
"""

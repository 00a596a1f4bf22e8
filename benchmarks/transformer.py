"""A small transformer over words, its public training, and DP-SGD by hand; for `dp_sgd.py`.

Needs torch. Rows of text are target words (−1: none) and which sentence of the row each is in: a
word sees the words before it in its own sentence, and <s>. The embedding of words is also the last
layer, which has a bias of its own.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

Array = NDArray[Any]
DROPOUT = 0.1
WARM_UP = 0.05  # the part of the steps in which learning speeds up
MOMENTUM = 0.9
MOST_WORDS = 128


@dataclass(frozen=True)
class Size:
    """How large a transformer is."""

    width: int
    layers: int
    heads: int


class Block(nn.Module):
    """Attention to the words before, then two layers."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.before, self.between = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.asked = nn.Linear(size.width, 3 * size.width)
        self.told = nn.Linear(size.width, size.width)
        self.wide, self.narrow = (
            nn.Linear(size.width, 4 * size.width),
            nn.Linear(4 * size.width, size.width),
        )
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, values: Tensor, unseen: Tensor) -> Tensor:
        """Rows × words × width; `unseen` is −∞ where a word may not look."""
        rows, words, width = values.shape
        parts = self.asked(self.before(values)).view(
            rows, words, 3, self.heads, width // self.heads
        )
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads) + unseen[:, None]
        seen = (torch.softmax(scores, dim=-1) @ value).transpose(1, 2).reshape(rows, words, width)
        values = values + self.dropout(self.told(seen))
        return values + self.dropout(self.narrow(functional.gelu(self.wide(self.between(values)))))


class Transformer(nn.Module):
    """Words in, logits of the next word out."""

    def __init__(self, words: int, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words + 1, size.width)  # the last is <s>
        self.position = nn.Embedding(MOST_WORDS, size.width)
        self.blocks = nn.ModuleList([Block(size) for _ in range(size.layers)])
        self.last = nn.LayerNorm(size.width)
        self.bias = nn.Parameter(torch.zeros(words))
        self.dropout = nn.Dropout(DROPOUT)
        for table in (self.embedding, self.position):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, targets: Tensor, sentences: Tensor) -> Tensor:
        """Logits of every target; a target is not seen before the next."""
        inputs, places, unseen = self._seen(targets, sentences)
        values = self.dropout(self.embedding(inputs) + self.position(places))
        for block in self.blocks:
            values = block(values, unseen)
        logits: Tensor = self.last(values) @ self.embedding.weight[:-1].T + self.bias
        return logits

    def _seen(self, targets: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what stands before each target.

        Also its place in the sentence, and what it may not look at.
        """
        same = sentences[:, :, None] == sentences[:, None, :]
        earlier = torch.ones(
            targets.shape[1], targets.shape[1], dtype=torch.bool, device=targets.device
        ).tril()
        seen = same & earlier
        places = (seen.sum(dim=-1) - 1).clamp(0, MOST_WORDS - 1)
        before = torch.cat([torch.full_like(targets[:, :1], -1), targets[:, :-1]], dim=1)
        inputs = torch.where(
            (places == 0) | (before < 0), self.embedding.num_embeddings - 1, before
        )
        unseen = torch.zeros(seen.shape, device=targets.device).masked_fill(~seen, -torch.inf)
        return inputs, places, unseen


class Learner:
    """A transformer that learns, on the GPU where there is one."""

    def __init__(self, words: int, size: Size) -> None:
        torch.set_float32_matmul_precision("high")
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.words, self.shape = words, size
        self.model = Transformer(words, size).to(self.device)

    @property
    def size(self) -> dict[str, int]:
        """The number of parameters, and their bytes."""
        parameters = sum(each.numel() for each in self.model.parameters())
        return {"parameters": parameters, "bytes": 4 * parameters}

    def save(self, path: Path) -> None:
        """Half precision: what is kept and loaded is what is judged."""
        halves = {name: value.half().cpu() for name, value in self.model.state_dict().items()}
        size = (self.shape.width, self.shape.layers, self.shape.heads)
        torch.save({"words": self.words, "size": size, "values": halves}, path)
        self.load(path)

    def load(self, path: Path) -> None:
        """The parameters of a saved one of the same size."""
        saved = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict({name: value.float() for name, value in saved["values"].items()})

    def pre_train(
        self, targets: Array, sentences: Array, *, epochs: int, batch: int, rate: float
    ) -> None:
        """AdamW on public text, with a warm-up and a cosine."""
        self.model.train()
        rows = self._on_device(targets), self._on_device(sentences)
        steps = epochs * math.ceil(len(targets) / batch)
        optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=rate, weight_decay=0.05, betas=(0.9, 0.98)
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, rate, total_steps=steps, pct_start=WARM_UP
        )
        for epoch in range(epochs):
            total = 0.0
            for some in torch.randperm(len(targets), device=self.device).split(batch):
                with torch.autocast(self.device.type, torch.bfloat16):
                    logits = self.model(rows[0][some], rows[1][some])
                loss = functional.cross_entropy(
                    logits.flatten(0, 1), rows[0][some].flatten(), ignore_index=-1
                )
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                total = total + loss.detach()
            print(
                f"epoch {epoch + 1}: public loss {float(total) / max(1, steps // epochs):.4f}",
                flush=True,
            )

    def fine_tune(
        self,
        targets: Array,
        sentences: Array,
        plan: dict[str, float],
        *,
        which: str,
        rate: float,
        clip: float,
        chunk: int,
    ) -> None:
        """Train with DP-SGD.

        Poisson sampling, a clipped gradient for each row, Gaussian noise on their sum; then momentum.

        The sum is divided by the number of rows that are expected, which is public. Learning slows
        down to 0.
        """
        self.model.eval()  # no dropout: the gradient of a row depends on the row alone
        learning = {
            name: value for name, value in self.model.named_parameters() if learns(name, which)
        }
        fixed = {
            name: value.detach()
            for name, value in self.model.named_parameters()
            if name not in learning
        }
        values = {name: value.detach().clone() for name, value in learning.items()}
        order = np.argsort(
            (targets >= 0).sum(axis=1), kind="stable"
        )  # alike in length: less to fill up
        rows = self._on_device(targets[order]), self._on_device(sentences[order])
        lengths = (targets[order] >= 0).sum(axis=1)
        expected, steps = plan["rate"] * len(targets), int(plan["steps"])
        speed = {name: torch.zeros_like(value) for name, value in values.items()}
        for step in range(steps):
            taken = np.flatnonzero(np.random.default_rng().random(len(targets)) < plan["rate"])
            total = {name: torch.zeros_like(value) for name, value in values.items()}
            for first in range(0, taken.size, chunk):
                some = taken[first : first + chunk]
                longest = int(lengths[some].max())
                where = torch.as_tensor(some, device=self.device)
                self._add_clipped(
                    total, values, fixed, rows[0][where, :longest], rows[1][where, :longest], clip
                )
            slower = rate * (1 - step / steps)
            for name, own in values.items():
                noise = plan["noise_multiplier"] * clip * torch.randn_like(own)
                speed[name] = MOMENTUM * speed[name] + (total[name] + noise) / expected
                own.sub_(slower * speed[name])
        with torch.no_grad():
            for name, value in learning.items():
                value.copy_(values[name])

    def _add_clipped(
        self,
        total: dict[str, Tensor],
        values: dict[str, Tensor],
        fixed: dict[str, Tensor],
        targets: Tensor,
        sentences: Tensor,
        clip: float,
    ) -> None:
        """Add the clipped gradient of each row to the total.

        A gradient is scaled down to the norm `clip` where it is above.
        """

        def loss(own: dict[str, Tensor], row: Tensor, inside: Tensor) -> Tensor:
            with torch.autocast(
                self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"
            ):
                logits = functional_call(self.model, {**own, **fixed}, (row[None], inside[None]))[0]
            known = row >= 0
            logs = torch.log_softmax(logits.float(), dim=-1)
            picked = logs.gather(1, row.clamp(min=0)[:, None])[:, 0]
            return -(picked * known).sum() / known.sum().clamp(min=1)

        gradients = vmap(grad(loss), in_dims=(None, 0, 0), randomness="error")(
            values, targets, sentences
        )
        norms = torch.stack(
            [each.flatten(1).float().norm(dim=1) for each in gradients.values()]
        ).norm(dim=0)
        scales = (clip / norms.clamp(min=1e-12)).clamp(max=1.0)
        for name, each in gradients.items():
            total[name] += torch.einsum("r,r...->...", scales, each.float())

    @torch.no_grad()
    def evaluate(
        self,
        targets: Array,
        sentences: Array,
        *,
        move: Array | None = None,
        ngrams: tuple[float, Array] | None = None,
        batch: int = 64,
    ) -> dict[str, float]:
        """Perplexity of words and sentence ends.

        The share of words that were the first, or among three suggestions.

        `move` is added to the logarithms of all words; `ngrams` is the share of another model, and
        its p of every target: suggestions are without it.
        """
        self.model.eval()
        end, unknown = self.words - 2, self.words - 1
        lifts = 0.0 if move is None else torch.as_tensor(move, device=self.device).float()
        totals, done = torch.zeros(5, dtype=torch.float64, device=self.device), 0
        for first in range(0, len(targets), batch):
            rows = (
                self._on_device(targets[first : first + batch]),
                self._on_device(sentences[first : first + batch]),
            )
            wanted = rows[0][rows[0] >= 0]
            logs = torch.log_softmax(self.model(*rows)[rows[0] >= 0] + lifts, dim=1)
            likely = logs.gather(1, wanted[:, None])[:, 0].double().exp()
            if ngrams is not None:
                others = torch.as_tensor(ngrams[1][done : done + len(wanted)], device=self.device)
                likely = (1 - ngrams[0]) * likely + ngrams[0] * others
            done += len(wanted)
            logs[:, [end, unknown]] = -torch.inf
            hits = logs.topk(3, dim=1).indices == wanted[:, None]
            counts = [
                torch.tensor(len(wanted)),
                (wanted != end).sum(),
                hits[:, 0].sum(),
                hits.any(dim=1).sum(),
            ]
            totals += torch.stack(
                [-likely.log().sum(), *(each.double().to(self.device) for each in counts)]
            )
        loss, predictions, words, one, three = totals.tolist()
        found = {"perplexity": math.exp(loss / predictions), "predictions": predictions}
        return (
            found if ngrams is not None else {**found, "first": one / words, "third": three / words}
        )

    def _on_device(self, array: Array) -> Tensor:
        return torch.as_tensor(array, device=self.device).long()


def learns(name: str, which: str) -> bool:
    """Whether DP-SGD changes a parameter.

    All; blocks, and biases; or biases and the scales of layers alone.
    """
    layer = name.removesuffix(".weight")
    is_scale = layer.endswith(("before", "between", "last"))
    return {
        "all": True,
        "blocks": not name.startswith(("embedding", "position")),
        "biases": name.endswith("bias") or is_scale,
    }[which]


class TransformerScorer:
    """The saved transformer as a scorer of `bayesgram.lm.adapt`; on the processor."""

    def __init__(self, words: list[str], path: Path) -> None:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        self.words = words
        self._numbers = {word: number for number, word in enumerate(words)}
        self._model = Transformer(saved["words"], Size(*saved["size"])).eval()
        self._model.load_state_dict(
            {name: value.float() for name, value in saved["values"].items()}
        )
        self._last: tuple[Any, Array] | None = None

    @torch.no_grad()
    def log_probabilities(self, contexts: Any) -> Array:
        """Contexts × words.

        The last contexts are remembered, as several adaptations ask for the same.
        """
        if self._last is None or self._last[0] is not contexts:
            unknown = len(self.words) - 1
            length = 1 + max(map(len, contexts), default=0)
            targets = torch.full((len(contexts), min(length, MOST_WORDS)), unknown)
            for row, context in enumerate(contexts):
                numbers = [self._numbers.get(word, unknown) for word in context][1 - MOST_WORDS :]
                targets[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.long)
            ends = torch.tensor([min(len(context), MOST_WORDS - 1) for context in contexts])
            logits = self._after(targets, ends)
            self._last = (contexts, torch.log_softmax(logits, dim=1).double().numpy())
        return self._last[1]

    def _after(self, targets: Tensor, ends: Tensor) -> Tensor:
        """Logits at one place of each row; the last layer is large, and needed nowhere else."""
        model = self._model
        inputs, places, unseen = model._seen(targets, torch.zeros_like(targets))  # noqa: SLF001
        values = model.embedding(inputs) + model.position(places)
        for block in model.blocks:
            values = block(values, unseen)
        found: Tensor = (
            model.last(values[torch.arange(len(ends)), ends]) @ model.embedding.weight[:-1].T
            + model.bias
        )
        return found

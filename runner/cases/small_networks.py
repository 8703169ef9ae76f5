"""Small networks: a convolutional one, two perceptrons, an LSTM language model, recurrent cells by hand."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .layers import cross_entropy

CNN_CHANNELS = (3, 64, 128, 256, 256)
CNN_IMAGE, CNN_CLASSES = 32, 10


def _cnn_stage(inputs: int, outputs: int) -> nn.Sequential:
    # No bias: the batch normalisation behind the convolution would take it out again.
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))


@case(family="convolutional networks", phases=("infer", "train"), batch=[4, 32, 256])
def custom_cnn(batch: int) -> Workload:
    """Four times convolution, batch norm, ReLU and pooling over 32 x 32 images, then one linear layer."""
    stages: list[nn.Module] = []
    operations, size = 0, CNN_IMAGE
    for inputs, outputs in pairwise(CNN_CHANNELS):
        stages.append(_cnn_stage(inputs, outputs))
        operations += flops.conv2d(batch, inputs, outputs, 3, size)
        size //= 2
    features = CNN_CHANNELS[-1] * size * size
    return Workload(
        nn.Sequential(*stages, nn.Flatten(), nn.Linear(features, CNN_CLASSES)),
        (torch.randn(batch, CNN_CHANNELS[0], CNN_IMAGE, CNN_IMAGE),),
        items=batch,
        unit="images",
        flops=operations + flops.linear(batch, features, CNN_CLASSES),
        loss=cross_entropy(batch, classes=CNN_CLASSES),
        classes=True,
    )


MLP_WIDTHS = (512, 1024, 1024, 10)


@case(family="programs", phases=("infer", "train"), batch=[1, 64])
def mlp_overhead(batch: int) -> Workload:
    """Three linear layers, 512-1024-1024-10, with ReLU between them: the framework's overhead."""
    first, second, third = (nn.Linear(inputs, outputs) for inputs, outputs in pairwise(MLP_WIDTHS))
    return Workload(
        nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third),
        (torch.randn(batch, MLP_WIDTHS[0]),),
        items=batch,
        flops=sum(flops.linear(batch, inputs, outputs) for inputs, outputs in pairwise(MLP_WIDTHS)),
        loss=cross_entropy(batch, classes=MLP_WIDTHS[-1]),
        classes=True,
    )


TINY_WIDTHS = (1, 16, 16, 16, 16, 1)


@case(family="programs", batch=[1, 1000])
def tiny_mlp(batch: int) -> Workload:
    """Five linear layers, 1-16-16-16-16-1, with tanh between them: hardly more than the calls themselves.

    Guards: the cost of a call, and what a compiled graph does around its kernels.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(TINY_WIDTHS):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return Workload(
        nn.Sequential(*layers[:-1]),
        (torch.randn(batch, TINY_WIDTHS[0]),),
        items=batch,
        flops=sum(flops.linear(batch, inputs, outputs) for inputs, outputs in pairwise(TINY_WIDTHS)),
    )


LSTM_VOCABULARY, LSTM_WIDTH, LSTM_LAYERS = 33278, 650, 2


class LstmLanguageModel(nn.Module):
    """Embedding, two layers of `nn.LSTM`, and an untied head; no dropout.

    Source: the medium model of Zaremba et al. 2014, arXiv:1409.2329, with the vocabulary of WikiText-2
    (Merity et al. 2016, arXiv:1609.07843). Maps tokens (batch, tokens) to logits (batch, tokens, 33278).
    torch.compile leaves the whole model eager, since Dynamo refuses to trace into `nn.LSTM` unless its
    experimental `allow_rnn` is set: that is what everyone who writes such a model gets, so it stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(LSTM_VOCABULARY, LSTM_WIDTH)
        self.recurrent = nn.LSTM(LSTM_WIDTH, LSTM_WIDTH, LSTM_LAYERS, batch_first=True)
        self.head = nn.Linear(LSTM_WIDTH, LSTM_VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.recurrent(self.tokens(tokens))
        return self.head(hidden)


@case(family="recurrent networks", phases=("infer", "train"), batch=[1, 20], tokens=[35])
def lstm_lm(batch: int, tokens: int) -> Workload:
    """LSTM language model, two layers of 650 units over segments of a WikiText-2-sized vocabulary."""
    layer = flops.recurrent(batch, tokens, LSTM_WIDTH, LSTM_WIDTH, gates=4)
    return Workload(
        LstmLanguageModel(),
        (torch.randint(LSTM_VOCABULARY, (batch, tokens)),),
        items=batch * tokens,
        unit="tokens",
        flops=LSTM_LAYERS * layer + flops.linear(batch * tokens, LSTM_WIDTH, LSTM_VOCABULARY),
        loss=cross_entropy(batch, tokens, classes=LSTM_VOCABULARY),
        classes=True,
    )


FEATURES = 128
#: Layers of PyTorch by kind, with the number of matrices that each applies to an input.
_LAYERS: dict[str, tuple[type[nn.GRU] | type[nn.LSTM], int]] = {
    "gru": (nn.GRU, 3),
    "bidirectional": (nn.LSTM, 4),
    "packed": (nn.LSTM, 4),
}


def _lengths(batch: int, steps: int) -> Tensor:
    """Lengths of packed sequences, from the longest to one half as long."""
    return torch.linspace(steps, steps // 2, batch).long()


class RecurrentLayer(nn.Module):
    """One recurrent layer over (batch, steps, 128), and its output at every step.

    `bidirectional` reads the sequence in both directions. `packed` reads sequences of falling length, packed
    by PyTorch's utilities.
    """

    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.packed = kind == "packed"
        layer, _ = _LAYERS[kind]
        self.layer = layer(FEATURES, hidden, batch_first=True, bidirectional=kind == "bidirectional")

    def forward(self, sequences: Tensor) -> Tensor:
        if not self.packed:
            return self.layer(sequences)[0]
        batch, steps, _ = sequences.shape
        output, _ = self.layer(
            nn.utils.rnn.pack_padded_sequence(sequences, _lengths(batch, steps), batch_first=True)
        )
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0]


@case(
    family="recurrent networks",
    phases=("infer", "train"),
    kind=["gru", "bidirectional", "packed"],
    batch=[16],
    steps=[64],
    hidden=[256],
)
def recurrent_layer(kind: str, batch: int, steps: int, hidden: int) -> Workload:
    """A recurrent layer of PyTorch: a GRU, an LSTM that reads both ways, one over packed sequences.

    Guards: a fused kernel for whole sequences that one kind of layer no longer reaches.
    """
    _, gates = _LAYERS[kind]
    ways = 2 if kind == "bidirectional" else 1
    count = int(_lengths(batch, steps).sum()) if kind == "packed" else batch * steps
    return Workload(
        RecurrentLayer(kind, hidden),
        (torch.randn(batch, steps, FEATURES),),
        items=batch,
        unit="sequences",
        flops=ways * flops.recurrent(1, count, FEATURES, hidden, gates),
        loss=cross_entropy(batch, steps, classes=ways * hidden),
    )


class GruCell(nn.Module):
    """A gated recurrent unit, stepped over (batch, steps, 128) in Python to its last state (batch, hidden).

    Source: Cho et al. 2014, arXiv:1406.1078, in the form of `torch.nn.GRUCell`: the reset gate acts on
    the hidden state after its matrix product. torch.compile unrolls the loop.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(FEATURES, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)

    def forward(self, sequence: Tensor) -> Tensor:
        state = sequence.new_zeros(sequence.shape[0], self.hidden)
        for features in sequence.unbind(1):
            reset_in, update_in, new_in = self.from_input(features).chunk(3, -1)
            reset_state, update_state, new_state = self.from_state(state).chunk(3, -1)
            reset = torch.sigmoid(reset_in + reset_state)
            update = torch.sigmoid(update_in + update_state)
            new = torch.tanh(new_in + reset * new_state)
            state = new + update * (state - new)
        return state


class LstmCell(nn.Module):
    """Long short-term memory, stepped over (batch, steps, 128) in Python to its last output (batch, hidden).

    Source: Hochreiter and Schmidhuber 1997, in the form of `torch.nn.LSTMCell`. torch.compile unrolls the
    loop, which makes it the static graph that `nn.LSTM` does not become.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(FEATURES, 4 * hidden)
        self.from_state = nn.Linear(hidden, 4 * hidden)

    def forward(self, sequence: Tensor) -> Tensor:
        state = memory = sequence.new_zeros(sequence.shape[0], self.hidden)
        for features in sequence.unbind(1):
            gates = self.from_input(features) + self.from_state(state)
            enter, forget, new, leave = gates.chunk(4, -1)
            memory = torch.sigmoid(forget) * memory + torch.sigmoid(enter) * torch.tanh(new)
            state = torch.sigmoid(leave) * torch.tanh(memory)
        return state


@case(family="recurrent networks", phases=("infer", "train"), batch=[16], steps=[16], hidden=[256])
def custom_lstm_cell(batch: int, steps: int, hidden: int) -> Workload:
    """An LSTM written out in Python, step by step; its last output serves as class scores in training.

    Guards: a loop that is compiled step by step, or pays for its Python in each step.
    """
    return Workload(
        LstmCell(hidden),
        (torch.randn(batch, steps, FEATURES),),
        items=batch,
        unit="sequences",
        flops=flops.recurrent(batch, steps, FEATURES, hidden, gates=4),
        loss=cross_entropy(batch, classes=hidden),
    )


@case(family="recurrent networks", phases=("infer", "train"), batch=[16], steps=[8, 64], hidden=[256])
def custom_gru_cell(batch: int, steps: int, hidden: int) -> Workload:
    """A GRU written out in Python, step by step; its last state serves as class scores in training."""
    return Workload(
        GruCell(hidden),
        (torch.randn(batch, steps, FEATURES),),
        items=batch,
        unit="sequences",
        flops=flops.recurrent(batch, steps, FEATURES, hidden, gates=3),
        loss=cross_entropy(batch, classes=hidden),
    )

"""Floating-point operations of the layers that cases are made of, counted on paper.

Every function counts one forward pass in multiply-adds, each as two operations, and leaves out what is
done per element (bias, normalisation, activation, softmax, pooling) or by look-up (embedding): the
convention of `torch.utils.flop_counter` and of the model-FLOPs utilisation of PaLM (Chowdhery et al.
2022, arXiv:2204.02311, appendix B). On paper, because that counter does not see every kernel: it
counts nothing for `nn.LSTM` and for attention fused on the CPU.
"""

from math import prod


def linear(rows: int, inputs: int, outputs: int) -> int:
    """`rows` vectors through a matrix: 2 · rows · inputs · outputs."""
    return 2 * rows * inputs * outputs


def conv2d(images: int, inputs: int, outputs: int, kernel: int, size: int) -> int:
    """A square kernel over `inputs` channels for each of size · size output pixels of each image."""
    return 2 * images * size * size * outputs * inputs * kernel * kernel


def convolution(
    images: int, inputs: int, outputs: int, kernel: tuple[int, ...], places: tuple[int, ...], groups: int = 1
) -> int:
    """A kernel of any dimension over `inputs` channels in `groups`, at each of `places` along the dimensions.

    The places are those of the output; of a transposed convolution, those of the input.
    """
    return 2 * images * prod(places) * outputs * inputs // groups * prod(kernel)


def conv_size(size: int, kernel: int, stride: int, padding: int) -> int:
    """Pixels along one side after a convolution or pooling of an input with `size` pixels along it.

    Source: the shape formula of `torch.nn.Conv2d`; under dilation d the kernel spans d · (kernel - 1) + 1.
    """
    return (size + 2 * padding - kernel) // stride + 1


def attention(batch: int, queries: int, keys: int, width: int) -> int:
    """Scores and weighted sum of all heads together: 2 products of 2 · queries · keys · width each.

    A causal mask takes nothing off: PaLM and the counter of PyTorch count the full square, too.
    """
    return 2 * 2 * batch * queries * keys * width


def transformer_layer(batch: int, tokens: int, width: int, inner: int) -> int:
    """One layer of self-attention (query, key, value, output) and a feed-forward of `inner` units."""
    rows = batch * tokens
    projections = linear(rows, width, 3 * width) + linear(rows, width, width)
    feed_forward = linear(rows, width, inner) + linear(rows, inner, width)
    return projections + attention(batch, tokens, tokens, width) + feed_forward


def recurrent(batch: int, steps: int, inputs: int, hidden: int, gates: int) -> int:
    """One recurrent layer: per step, `gates` matrices on the input and as many on the hidden state.

    An LSTM has 4 gates (Hochreiter and Schmidhuber 1997, in the form of `torch.nn.LSTM`), a GRU 3
    (Cho et al. 2014, arXiv:1406.1078).
    """
    return linear(batch * steps, inputs + hidden, gates * hidden)

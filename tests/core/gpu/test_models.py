"""Every spelling of a product leads to its canonical name, and no other text does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.model_table import INSTANCE_TYPE_ROWS, MODEL_ROWS
from scheduler_ext.core.gpu.models import canonical_model, normalise_model, vgpu_fraction
from tests.core.asked import meets

NAMES = sorted(row.name for row in MODEL_ROWS)
PROFILES = ("1g.10gb", "1g.10gb+me", "3g.40gb", "1g.24gb+me.all", "1g.24gb+gfx", "1g.24gb-me", "1c.3g.40gb")


@pytest.mark.parametrize(
    ("product", "memory_mib", "name"),
    [
        pytest.param("NVIDIA A100-SXM4-80GB", None, "A100-80GB", id="NVML name of an A100 SXM"),
        pytest.param("NVIDIA-A100-SXM4-80GB", None, "A100-80GB", id="GFD joins the words with dashes"),
        pytest.param("NVIDIA A100 80GB PCIe", None, "A100-80GB", id="the form factor may follow the size"),
        pytest.param("NVIDIA-A100-PCIE-40GB", None, "A100-40GB", id="the form factor may precede the size"),
        pytest.param("A100-SXM4-40GB", None, "A100-40GB", id="old drivers leave out the vendor"),
        pytest.param("NVIDIA A100-SXM-64GB", None, "A100-64GB", id="a custom size stays in its family"),
        pytest.param("NVIDIA H100 PCIe", None, "H100-80GB", id="H100 PCIe names no size and has 80 GB"),
        pytest.param("NVIDIA H100 NVL", None, "H100-94GB", id="H100 NVL names no size and has 94 GB"),
        pytest.param(
            "NVIDIA-H100-PCIe-MIG-INVALID", None, "H100-80GB", id="GFD calls the MIG layout invalid"
        ),
        pytest.param("NVIDIA H100", 97871, "H100-96GB", id="memory distinguishes 96 GB from 94 GB"),
        pytest.param("NVIDIA H100", 96500, "H100-94GB", id="of two sizes within reach the nearer one"),
        pytest.param("NVIDIA H100", None, "H100", id="an H100 of unknown size is the family"),
        pytest.param("NVIDIA GH200 480GB", None, "GH200-96GB", id="480 GB is the memory of GH200's CPU"),
        pytest.param("NVIDIA GH200 120GB", None, "GH200-96GB", id="120 GB is that of GH200's smaller CPU"),
        pytest.param("NVIDIA GH200 144G HBM3e", None, "GH200-144GB", id="a size may be written 144G"),
        pytest.param("NVIDIA H20", 143771, "H20-141GB", id="memory identifies the H20 of 141 GB"),
        pytest.param("NVIDIA B300 288GB", None, "B300", id="the size on the box is not the driver's"),
        pytest.param("Tesla P100-PCIE-16GB", None, "P100", id="the usual size of P100 is left out"),
        pytest.param("Tesla P100-PCIE-12GB", None, "P100-12GB", id="the unusual size of P100 is kept"),
        pytest.param("NVIDIA T4G", None, "T4G", id="T4G is not T4"),
        pytest.param("NVIDIA A100-PG509-200", 40536, "A100-40GB", id="a board of an A100 of 40 GB"),
        pytest.param("NVIDIA PG509-210", None, "A100-80GB", id="a board of an A100 of 80 GB"),
        pytest.param("NVIDIA PG506-232", 98304, "PG506-232", id="a board of a GPU that is not known"),
        pytest.param("NVIDIA A800 80GB PCIe LC", None, "A800-80GB", id="an A800 with liquid cooling"),
        pytest.param("NVIDIA RTX A1000", None, "RTX-A1000", id="RTX A1000 is not A100"),
        pytest.param("Quadro RTX 6000", None, "QUADRO-RTX-6000", id="Quadro RTX 6000 is another product"),
        pytest.param(
            "NVIDIA RTX PRO 6000 Blackwell Server Edition", None, "RTX-PRO-6000", id="RTX PRO server edition"
        ),
        pytest.param(
            "NVIDIA RTX PRO 5000 72GB Blackwell", None, "RTX-PRO-5000-72GB", id="RTX PRO 5000 of 72 GB"
        ),
        pytest.param("NVIDIA GeForce RTX 4090 D", None, "RTX-4090-D", id="RTX 4090 D is no RTX 4090"),
        pytest.param("NVIDIA A800 40GB Active", None, "A800-40GB", id="the A800 with a fan"),
        pytest.param("NVIDIA B300 SXM6 AC", None, "B300", id="B300 with air cooling"),
        pytest.param(
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            None,
            "RTX-PRO-6000",
            id="Max-Q edition",
        ),
        pytest.param("NVIDIA GB10", None, "GB10", id="DGX Spark"),
        pytest.param("NVIDIA Thor", None, "THOR", id="Jetson Thor"),
        pytest.param("Orin (nvgpu)", None, "ORIN", id="Jetson Orin"),
        pytest.param("H100_NVLINK_80GB", None, "H100-80GB", id="CoreWeave's class"),
        pytest.param("GB200_4x", None, "GB200-186GB", id="CoreWeave counts the GPUs of the node"),
        pytest.param("RTXPRO6000BSE", None, "RTX-PRO-6000", id="Azure's name of the server edition"),
        pytest.param("NVIDIA GeForce RTX 4070 Ti SUPER", None, "RTX-4070-TI-SUPER", id="a brand is no name"),
        pytest.param("rtx4070ti", None, "RTX-4070-TI", id="words may be written as one"),
        pytest.param("Tesla NVIDIA P4000", None, "P4000", id="nor is a vendor, wherever it stands"),
        pytest.param("GeForce RTX 4090 Laptop GPU", None, "RTX-4090-LAPTOP", id="a laptop's is another GPU"),
        pytest.param(
            "GeForce RTX 2080 with Max-Q Design", None, "RTX-2080-WITH-MAX-Q-DESIGN", id="so is Max-Q of then"
        ),
        pytest.param("Quadro P4000", None, "P4000", id="Quadro is a brand"),
        pytest.param("AMD Radeon PRO W7900", None, "W7900", id="Radeon PRO is a brand"),
        pytest.param("GeForce GTX 1060 6GB", None, "GTX-1060-6GB", id="a size is part of an unknown name"),
        pytest.param("Tesla-T4-SHARED", None, "T4", id="GFD marks shared GPUs"),
        pytest.param("nvidia-tesla-a100", None, "A100-40GB", id="GKE: plain A100 is the one of 40 GB"),
        pytest.param("nvidia-tesla-v100", 32768, "V100-32GB", id="measured memory beats the usual size"),
        pytest.param("a100", 80300, "A100-80GB", id="memory may be 2 % off"),
        pytest.param("a100", 80200, "A100", id="memory may not be more than 2 % off"),
        pytest.param("l4", 2861, "L4", id="Karpenter: the memory of a fraction decides nothing"),
        pytest.param("AMD_Instinct_MI300X_OAM", None, "MI300X", id="AMD's labeller joins with underscores"),
        pytest.param("AMD Instinct MI250X / MI250", None, "MI250X", id="AMD: one name for two cards"),
        pytest.param("AMD_Instinct_MI325_OAM", None, "MI325X", id="AMD: the board's own name"),
        pytest.param("AMD_Instinct_MI355_OAM", None, "MI355X", id="AMD: the board of an MI355X"),
        pytest.param("AMD INSTINCT MI250 (MCM) OAM AC MBA", None, "MI250", id="AMD: the board of an MI250"),
        pytest.param("AMD_Instinct_MI308X_HF_VF", None, "MI308X", id="AMD: a virtual function"),
        pytest.param("Max_1100", None, "MAX-1100", id="Intel's NFD rule"),
        pytest.param("Intel(R) Data Center GPU Max 1100", None, "MAX-1100", id="Intel's full name"),
        pytest.param("NVIDIA Future Chip X1", None, "FUTURE-CHIP-X1", id="an unknown product keeps its name"),
        pytest.param("NVIDIA", None, "NVIDIA", id="a vendor alone is all the name there is"),
        pytest.param(" ", None, "UNKNOWN", id="no name at all"),
    ],
)
def test_canonical_name(product: str, memory_mib: int | None, name: str) -> None:
    assert canonical_model(product, memory_mib=memory_mib).name == name


def test_facts_of_a_known_product_come_from_the_table() -> None:
    model = canonical_model("NVIDIA-H100-80GB-HBM3")
    assert (model.family, model.vendor, model.architecture) == ("H100", "nvidia", "hopper")
    assert (model.compute_capability, model.memory_mib, model.mig_table) == ((9, 0), 81559, "H100-80GB")


def test_a_family_of_unknown_size_keeps_what_all_its_sizes_share() -> None:
    model = canonical_model("A100")
    assert (model.family, model.compute_capability) == ("A100", (8, 0))
    assert (model.memory_mib, model.mig_table) == (None, None)


def test_a_product_of_megabytes_is_cut_before_anything_looks_at_it() -> None:
    model = canonical_model("A100-" + "x-" * 5_000_000)
    assert len(model.name) < 300
    assert model.name == canonical_model("A100-" + "x-" * 500).name


def test_an_unknown_product_keeps_the_vendor_and_memory_it_came_with() -> None:
    model = canonical_model("Frontier 9", vendor="amd", memory_mib=1234)
    assert (model.name, model.family, model.vendor, model.memory_mib) == (
        "FRONTIER-9",
        "FRONTIER-9",
        "amd",
        1234,
    )
    assert canonical_model("AMD Instinct MI999").vendor == "amd"
    assert canonical_model("Frontier 9 64GB").family == "FRONTIER-9"


@pytest.mark.parametrize(
    ("product", "name"),
    [
        pytest.param("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100-80GB-MIG-1G.10GB", id="GFD, strategy single"),
        pytest.param(
            "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "A100-80GB-MIG-1G.10GB", id="NVML's MIG device name"
        ),
        pytest.param("A100-80GB-MIG-1g.10gb+me", "A100-80GB-MIG-1G.10GB.ME", id="+me is written .me"),
        pytest.param("A100-80GB-MIG-1g.10gb.me", "A100-80GB-MIG-1G.10GB.ME", id=".me is GFD's own form"),
        pytest.param(
            "RTX-PRO-6000-MIG-1g.24gb-me", "RTX-PRO-6000-MIG-1G.24GB-ME", id="the minus of -me stays"
        ),
        pytest.param("NVIDIA-H100-PCIe-MIG-1g.10gb-SHARED", "H100-80GB-MIG-1G.10GB", id="a shared slice"),
    ],
)
def test_mig_slice_is_a_model_and_family_of_its_own(product: str, name: str) -> None:
    model = canonical_model(product, memory_mib=9728)
    assert (model.name, model.family, model.memory_mib) == (name, name, 9728)
    assert model.is_mig_slice
    assert model.mig_table == canonical_model(product.partition("-MIG-")[0].partition(" MIG ")[0]).mig_table
    assert meets(model, product)


@pytest.mark.parametrize(
    ("product", "memory_mib", "name", "fraction"),
    [
        pytest.param("NVIDIA L4-3Q", 2861, "L4", 8, id="an eighth of an L4"),
        pytest.param("GRID-T4-16Q", 15360, "T4", 1, id="all of a T4"),
        pytest.param("GRID-A100-4C", 4096, "A100-40GB", 10, id="a tenth of an A100 PCIe"),
        pytest.param("GRID A100DX-40C", 40960, "A100-80GB", 2, id="half of an A100 of 80 GB"),
        pytest.param("NVIDIA GRID V100D-8Q", 8192, "V100-32GB", 4, id="a quarter of a V100 of 32 GB"),
        pytest.param("NVIDIA GRID V100D-2B4", None, "V100-32GB", 16, id="B4, another series"),
        pytest.param("NVIDIA-H100XM-80C", 81920, "H100-80GB", 1, id="an H100 SXM5"),
        pytest.param("NVIDIA RTX6000-Ada-8Q", 8192, "RTX-6000-ADA", 6, id="a part of an RTX 6000 Ada"),
        pytest.param("GRID RTX6000-8Q", 8192, "QUADRO-RTX-6000", 3, id="which is no Quadro RTX 6000"),
        pytest.param("GRID P100X-8Q", 8192, "P100", 2, id="half of a P100 SXM2"),
        pytest.param("GRID P100C-12Q", 12288, "P100-12GB", 1, id="all of a GPU whose size only its name has"),
        pytest.param("NVIDIA B200X-45C", None, "B200X", 0, id="a board that is not known"),
    ],
)
def test_a_vgpu_is_a_part_of_its_gpu(product: str, memory_mib: int | None, name: str, fraction: int) -> None:
    """It has the memory that is measured, never that of the GPU, and its guest cannot divide it."""
    model = canonical_model(product, memory_mib=memory_mib)
    assert (model.name, model.memory_mib, model.mig_table) == (name, memory_mib, None)
    assert vgpu_fraction(product) == fraction


def test_a_vgpu_that_is_a_mig_instance_shows_that_instance() -> None:
    model = canonical_model("NVIDIA RTX Pro 6000 Blackwell DC-4-96Q", memory_mib=97887)
    assert (model.name, model.mig_table) == ("RTX-PRO-6000", "RTX-PRO-6000-96GB")
    assert vgpu_fraction("GRID A100D-1-10CME") == 8
    assert vgpu_fraction("NVIDIA RTX Pro 6000 Blackwell DC-1-24CNOME") == 4


def test_memory_of_a_slice_does_not_choose_the_gpu() -> None:
    # A 4g.40gb slice is about as large as a whole A100 of 40 GB.
    assert canonical_model("NVIDIA A100-MIG-4g.40gb", memory_mib=40192).name == "A100-MIG-4G.40GB"


def test_every_name_of_the_table_stands_for_itself() -> None:
    for name in NAMES:
        model = canonical_model(name)
        assert model.name == name
        assert normalise_model(name) == name
        assert meets(model, name)
        assert meets(model, model.family)


def test_table_says_nothing_twice() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for machine in INSTANCE_TYPE_ROWS:
        assert machine.model in NAMES
    for row in MODEL_ROWS:
        for alias in row.aliases:
            assert canonical_model(alias).name == row.name


spellings = st.builds(
    lambda name, separators, upper: "".join(
        next(separators) if part == "-" else (part.upper() if upper else part.lower())
        for part in re.split("(-)", name)
    ),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(["-", "_", " ", "  ", " - "]), min_size=8, max_size=8).map(iter),
    st.booleans(),
)


@given(spellings)
def test_case_and_separators_never_matter(spelling: str) -> None:
    name = re.sub(r"[\s_-]+", "-", spelling).upper()
    assert canonical_model(spelling).name == name
    assert canonical_model(f"NVIDIA {spelling}").name == name


WORDS = """NVIDIA Tesla AMD A100 H20 H100 GH200 RTX PRO 6000 L40S Max Q 1100 SXM4 PCIe 80GB 480GB 0GB SHARED
MIG INVALID NVL GRID 8Q 1-10CME Edition / (R) +"""
words = st.sampled_from([*WORDS.split(), *PROFILES])
products = st.one_of(
    st.text(max_size=60),
    st.builds(lambda joint, parts: joint.join(parts), st.sampled_from("- _"), st.lists(words, max_size=7)),
)


@given(products, st.none() | st.integers(0, 300_000))
def test_normalising_twice_changes_nothing(product: str, memory_mib: int | None) -> None:
    model = canonical_model(product, memory_mib=memory_mib)
    assert model.name
    assert canonical_model(model.name, memory_mib=memory_mib).name == model.name
    assert (
        model == canonical_model(product.lower().replace(" ", "_"), memory_mib=memory_mib)
        or not product.isascii()
    )
    assert len(model.name) > 128 or not re.search("[A-Z0-9]", model.name) or meets(model, model.name)


@given(st.sampled_from(NAMES), st.sampled_from(PROFILES))
def test_no_slice_is_taken_for_its_gpu(name: str, profile: str) -> None:
    gpu, slice_ = canonical_model(name), canonical_model(f"{name}-MIG-{profile}")
    assert slice_.is_mig_slice
    assert not meets(slice_, gpu.name)
    assert not meets(slice_, gpu.family)
    assert not meets(gpu, slice_.name)

"""The GPU products that this project knows by name, and the cloud instance types with them. Facts only; the
rules that read them are in `models` (names) and `estimate` (labels). Sources: NVIDIA's data sheets and CUDA
compute capability list, nvidia-smi transcripts (memory), the EC2 API, the cloud providers' machine type
pages (Oracle's shapes also in oracle-quickstart/oci-hpc-oke, Azure's sizes also in Azure/karpenter-provider,
IBM's flavors of workers in its release notes), AMD's and Intel's data sheets. An unconfirmed fact is None."""

import re
from collections.abc import Mapping
from typing import NamedTuple


class ModelRow(NamedTuple):
    """One GPU product. `name` is canonical; a trailing `-<n>GB` is its memory size and is not part of its
    family. `memory_mib` is what the driver reports as total memory (MiB); `sizes_gb` the sizes product names
    and people write for it, besides the one in `name`. `aliases` are further spellings, without vendor word
    and memory size; a row that lists the bare family name is the default of that family."""

    name: str
    architecture: str
    compute_capability: tuple[int, int] | None
    memory_mib: int | None = None
    sizes_gb: tuple[int, ...] = ()
    mig_table: str | None = None
    aliases: tuple[str, ...] = ()
    vendor: str = "nvidia"


# GH200 names carry the CPU's memory (120 or 480 GB, or 480 + 144). GKE's nvidia-tesla-a100 and -v100 name
# one size. Boards of A100-PG509-200 and PG509-210 have the PCI device ids of the A100 SXM4 of 40 and of 80 GB
# (20B0 and 20B2: "Compatible GPUs" in the README of NVIDIA/open-gpu-kernel-modules); PG506-230 and -232 are
# left out, because reports of their memory differ (24 and 96 GB).
_DATA_CENTER = (
    ModelRow("K80", "kepler", (3, 7), 11441, (12,)),
    ModelRow("M60", "maxwell", (5, 2), 8192, (8,)),
    ModelRow("P4", "pascal", (6, 1), 7680, (8,)),
    ModelRow("P40", "pascal", (6, 1), 22919, (24,)),
    ModelRow("P100", "pascal", (6, 0), 16384, (16,)),
    ModelRow("V100-16GB", "volta", (7, 0), 16384, aliases=("TESLA-V100",)),
    ModelRow("V100-32GB", "volta", (7, 0), 32768),
    ModelRow("V100S-32GB", "volta", (7, 0), 32768, aliases=("V100S",)),
    ModelRow("T4", "turing", (7, 5), 15360, (16,)),
    ModelRow("T4G", "turing", (7, 5), 15360, (16,)),
    ModelRow("A2", "ampere", (8, 6), 15356, (16,)),
    ModelRow("A10", "ampere", (8, 6), 23028, (24,)),
    ModelRow("A10G", "ampere", (8, 6), 23028, (24,)),
    ModelRow("A16", "ampere", (8, 6), 15356, (16,)),
    ModelRow("A30", "ampere", (8, 0), 24576, (24,), "A30-24GB"),
    ModelRow("A40", "ampere", (8, 6), 46068, (48,)),
    ModelRow("A100-40GB", "ampere", (8, 0), 40960, (), "A100-40GB", ("TESLA-A100", "A100-PG509-200")),
    ModelRow("A100-80GB", "ampere", (8, 0), 81920, (), "A100-80GB", ("PG509-210",)),
    ModelRow("A800-40GB", "ampere", (8, 0), 40960, (), "A100-40GB"),
    ModelRow("A800-80GB", "ampere", (8, 0), 81920, (), "A100-80GB"),
    ModelRow("L2", "ada-lovelace", (8, 9), None, (24,)),
    ModelRow("L4", "ada-lovelace", (8, 9), 23034, (24,)),
    ModelRow("L20", "ada-lovelace", (8, 9), 46068, (48,)),
    ModelRow("L40", "ada-lovelace", (8, 9), 46068, (48,)),
    ModelRow("L40S", "ada-lovelace", (8, 9), 46068, (48,)),
    ModelRow("H100-80GB", "hopper", (9, 0), 81559, (), "H100-80GB", ("H100-PCIE",)),
    ModelRow("H100-94GB", "hopper", (9, 0), 95830, (), "H100-94GB", ("H100-NVL",)),
    ModelRow("H100-96GB", "hopper", (9, 0), 97871, (), "H100-96GB"),
    ModelRow("H800-80GB", "hopper", (9, 0), 81559, (), "H100-80GB", ("H800-PCIE",)),
    ModelRow("H20-96GB", "hopper", (9, 0), 97871, (), "H20-96GB", ("H20",)),
    ModelRow("H20-141GB", "hopper", (9, 0), 143771, aliases=("H20-3E",)),
    ModelRow("H200-141GB", "hopper", (9, 0), 143771, (), "H200-141GB", ("H200",)),
    ModelRow("GH200-96GB", "hopper", (9, 0), 97871, (120, 480), "H100-96GB", ("GH200",)),
    ModelRow("GH200-144GB", "hopper", (9, 0), None, (624,), "GH200-144GB"),
    ModelRow("B200-180GB", "blackwell", (10, 0), 183359, (192,), "B200-180GB", ("B200",)),
    ModelRow("GB200-186GB", "blackwell", (10, 0), None, (), "GB200-186GB", ("GB200",)),
    ModelRow("GB200-189GB", "blackwell", (10, 0), None, (), "GB200-189GB"),
    ModelRow("B300", "blackwell", (10, 3), 275040, (269, 270, 288), "B300-269GB"),
    ModelRow("GB300", "blackwell", (10, 3), None, (278, 279, 288), "GB300-278GB"),
    # These have no memory of their own: they use the CPU's, and NVML states no amount.
    ModelRow("GB10", "blackwell", (12, 1), aliases=("DGX-SPARK",)),
    ModelRow("THOR", "blackwell", (11, 0), aliases=("JETSON-THOR", "JETSON-AGX-THOR")),
    ModelRow("ORIN", "ampere", (8, 7), aliases=("ORIN-NVGPU", "JETSON-ORIN", "JETSON-AGX-ORIN")),
    ModelRow("XAVIER", "volta", (7, 2), aliases=("XAVIER-NVGPU", "JETSON-XAVIER", "JETSON-AGX-XAVIER")),
)

_WORKSTATION = (
    ModelRow("RTX-PRO-6000", "blackwell", (12, 0), 97887, (96,), "RTX-PRO-6000-96GB", ("RTX-PRO-6000BSE",)),
    ModelRow("RTX-PRO-5000", "blackwell", (12, 0), None, (48,), "RTX-PRO-5000-48GB"),
    ModelRow("RTX-PRO-4500", "blackwell", (12, 0), None, (32,), "RTX-PRO-4500-32GB"),
    ModelRow("RTX-PRO-4000", "blackwell", (12, 0), None, (24,)),
    ModelRow("RTX-6000-ADA", "ada-lovelace", (8, 9), 49140, (48,)),
    ModelRow("RTX-5000-ADA", "ada-lovelace", (8, 9), 32760, (32,)),
    ModelRow("RTX-4500-ADA", "ada-lovelace", (8, 9), 24570, (24,)),
    ModelRow("RTX-4000-ADA", "ada-lovelace", (8, 9), 20475, (20,)),
    ModelRow("RTX-2000-ADA", "ada-lovelace", (8, 9), 16380, (16,)),
    ModelRow("RTX-A6000", "ampere", (8, 6), 49140, (48,), aliases=("A6000",)),
    ModelRow("RTX-A5000", "ampere", (8, 6), 24564, (24,), aliases=("A5000",)),
    ModelRow("RTX-A4500", "ampere", (8, 6), 20470, (20,), aliases=("A4500",)),
    ModelRow("RTX-A4000", "ampere", (8, 6), 16376, (16,), aliases=("A4000",)),
    ModelRow("RTX-A2000", "ampere", (8, 6), 6138, (6,), aliases=("A2000",)),
    ModelRow("RTX-A1000", "ampere", (8, 6), 8188, (8,), aliases=("A1000",)),
    ModelRow("QUADRO-RTX-8000", "turing", (7, 5), None, (48,)),
    ModelRow("QUADRO-RTX-6000", "turing", (7, 5), 24576, (24,)),
    ModelRow("QUADRO-RTX-5000", "turing", (7, 5), 16384, (16,)),
    ModelRow("QUADRO-RTX-4000", "turing", (7, 5), 8192, (8,)),
    ModelRow("TITAN-RTX", "turing", (7, 5), 24576, (24,)),
    ModelRow("TITAN-V", "volta", (7, 0), 12288, (12,)),
)

_GEFORCE = (
    ModelRow("RTX-5090", "blackwell", (12, 0), 32607, (32,)),
    ModelRow("RTX-5080", "blackwell", (12, 0), 16303, (16,)),
    ModelRow("RTX-4090", "ada-lovelace", (8, 9), 24564, (24,)),
    ModelRow("RTX-4080", "ada-lovelace", (8, 9), 16376, (16,)),
    ModelRow("RTX-3090", "ampere", (8, 6), 24576, (24,)),
    ModelRow("RTX-3090-TI", "ampere", (8, 6), 24564, (24,)),
    ModelRow("RTX-3080", "ampere", (8, 6), 10240, (10,)),
    ModelRow("RTX-2080-TI", "turing", (7, 5), 11264, (11,)),
    ModelRow("GTX-1080-TI", "pascal", (6, 1), 11264, (11,)),
)

# One MI250(X) is two devices to its driver, so their memory is half of the card's. AMD's names are those of
# libdrm (data/amdgpu.ids) and of the boards themselves, which say MI325, MI350 and MI355 OAM.
_OTHER_VENDORS = (
    ModelRow("MI100", "cdna", None, 32768, (32,), vendor="amd"),
    ModelRow("MI210", "cdna2", None, 65536, (64,), vendor="amd"),
    ModelRow("MI250", "cdna2", None, 65536, (128,), aliases=("MI250-MCM-MBA",), vendor="amd"),
    ModelRow("MI250X", "cdna2", None, 65536, (128,), aliases=("MI250X-MI250",), vendor="amd"),
    ModelRow("MI300A", "cdna3", None, 131072, (128,), vendor="amd"),
    ModelRow("MI300X", "cdna3", None, 196608, (192,), vendor="amd"),
    ModelRow("MI308X", "cdna3", None, 196608, (192,), vendor="amd"),
    ModelRow("MI325X", "cdna3", None, 262144, (256,), aliases=("MI325",), vendor="amd"),
    ModelRow("MI350P", "cdna4", None, None, (144,), vendor="amd"),
    ModelRow("MI350X", "cdna4", None, 294912, (288,), aliases=("MI350",), vendor="amd"),
    ModelRow("MI355X", "cdna4", None, 294912, (288,), aliases=("MI355",), vendor="amd"),
    ModelRow("V520", "rdna", None, 8192, (8,), aliases=("PRO-V520",), vendor="amd"),
    ModelRow("V710", "rdna3", None, None, (28,), aliases=("PRO-V710", "V710-MXGPU"), vendor="amd"),
    ModelRow("MAX-1100", "xe-hpc", None, 49152, (48,), vendor="intel"),
    ModelRow("MAX-1550", "xe-hpc", None, 131072, (128,), vendor="intel"),
    ModelRow("FLEX-140", "xe-hpg", None, None, vendor="intel"),
    ModelRow("FLEX-170", "xe-hpg", None, 16384, (16,), vendor="intel"),
    ModelRow("GAUDI", "gaudi", None, 32768, (32,), aliases=("GAUDI-HL-205", "HL-205"), vendor="habana"),
    ModelRow("GAUDI2", "gaudi2", None, 98304, (96,), aliases=("HL-225",), vendor="habana"),
    ModelRow("GAUDI3", "gaudi3", None, 131072, (128,), aliases=("HL-325", "HL-325L"), vendor="habana"),
)

MODEL_ROWS: tuple[ModelRow, ...] = _DATA_CENTER + _WORKSTATION + _GEFORCE + _OTHER_VENDORS


class InstanceTypeRow(NamedTuple):
    """Instance types (a regular expression over the lower-case name) that carry one canonical model.
    `fraction` is n where each device handed to the machine is 1/n of a GPU; such types have one device."""

    pattern: str
    model: str
    fraction: int = 1

    def gpus(self, name: str) -> int | None:
        """The number of GPUs of a type with this lower-case name; None where neither the table nor the name
        says it. The names of Google's accelerator-optimized types, of Oracle's shapes, of DigitalOcean's
        droplets and of IBM's flavors have it."""
        if self.fraction > 1:
            return 1
        stated = _GPUS_IN_NAME.fullmatch(name)
        # IBM's flavors name no number where it is one.
        return int(next(filter(None, stated.groups()), 1)) if stated is not None else None


_GPUS_IN_NAME = re.compile(
    r"a[2-4]x?-[a-z]+gpu-([0-9]{1,2})g(?:-[a-z]+)?|(?:bm|vm)\.gpu.*\.([0-9]{1,2})|gpu-[0-9a-z]+x([0-9])-.+"
    r"|gx[23]d?\.[0-9]+x[0-9]+\.([0-9]?)[a-z].+"
)


INSTANCE_TYPE_ROWS: tuple[InstanceTypeRow, ...] = (
    # Amazon EC2
    InstanceTypeRow(r"p6-b300\..+", "B300"),
    InstanceTypeRow(r"p6-b200\..+", "B200-180GB"),
    InstanceTypeRow(r"p6e-gb200\..+", "GB200-186GB"),
    InstanceTypeRow(r"p5en?\..+", "H200-141GB"),
    InstanceTypeRow(r"p5\..+", "H100-80GB"),
    InstanceTypeRow(r"p4de\..+", "A100-80GB"),
    InstanceTypeRow(r"p4d\..+", "A100-40GB"),
    InstanceTypeRow(r"p3dn\..+", "V100-32GB"),
    InstanceTypeRow(r"p3\..+", "V100-16GB"),
    InstanceTypeRow(r"p2\..+", "K80"),
    InstanceTypeRow(r"g7e\..+", "RTX-PRO-6000"),
    InstanceTypeRow(r"g7\..+", "RTX-PRO-4500"),
    InstanceTypeRow(r"g6e\..+", "L40S"),
    InstanceTypeRow(r"(g6|gr6)\..+", "L4"),
    InstanceTypeRow(r"g6f\.x?large", "L4", fraction=8),
    InstanceTypeRow(r"g6f\.2xlarge", "L4", fraction=4),
    InstanceTypeRow(r"(g6f|gr6f)\.4xlarge", "L4", fraction=2),
    InstanceTypeRow(r"g5g\..+", "T4G"),
    InstanceTypeRow(r"g5\..+", "A10G"),
    InstanceTypeRow(r"g4dn\..+", "T4"),
    InstanceTypeRow(r"g4ad\..+", "V520"),
    InstanceTypeRow(r"g3s?\..+", "M60"),
    InstanceTypeRow(r"dl1\..+", "GAUDI"),
    # Google Compute Engine
    InstanceTypeRow(r"a4x-maxgpu-.+", "GB300"),
    InstanceTypeRow(r"a4x-highgpu-.+", "GB200-186GB"),
    InstanceTypeRow(r"a4-highgpu-.+", "B200-180GB"),
    InstanceTypeRow(r"a3-ultragpu-.+", "H200-141GB"),
    InstanceTypeRow(r"a3-(high|mega|edge)gpu-.+", "H100-80GB"),
    InstanceTypeRow(r"a2-ultragpu-.+", "A100-80GB"),
    InstanceTypeRow(r"a2-(high|mega)gpu-.+", "A100-40GB"),
    InstanceTypeRow(r"g2-standard-.+", "L4"),
    InstanceTypeRow(r"g4-standard-6", "RTX-PRO-6000", fraction=8),
    InstanceTypeRow(r"g4-standard-12", "RTX-PRO-6000", fraction=4),
    InstanceTypeRow(r"g4-standard-24", "RTX-PRO-6000", fraction=2),
    InstanceTypeRow(r"g4-standard-.+", "RTX-PRO-6000"),
    # Microsoft Azure; of the RTX PRO sizes, the smaller ones have a quarter or half of a GPU
    InstanceTypeRow(r"standard_nd\d+is\w*_gb200_v6", "GB200-186GB"),
    InstanceTypeRow(r"standard_nd\d+is\w*_gb300_v6", "GB300"),
    InstanceTypeRow(r"standard_nc(24|32|36)[lm]?ds_xl_rtxpro6000bse_v6", "RTX-PRO-6000", fraction=4),
    InstanceTypeRow(r"standard_nc(64|72)[lm]?ds_xl_rtxpro6000bse_v6", "RTX-PRO-6000", fraction=2),
    InstanceTypeRow(r"standard_nc\d{3}[lm]?ds_xl_rtxpro6000bse_v6", "RTX-PRO-6000"),
    InstanceTypeRow(r"standard_nc\d+as_t4_v3", "T4"),
    InstanceTypeRow(r"standard_nc\d+r?s_v3", "V100-16GB"),
    InstanceTypeRow(r"standard_nd40rs_v2", "V100-32GB"),
    InstanceTypeRow(r"standard_nd\d+asr?_v4", "A100-40GB"),
    InstanceTypeRow(r"standard_nd\d+amsr?_a100_v4", "A100-80GB"),
    InstanceTypeRow(r"standard_nc\d+ads_a100_v4", "A100-80GB"),
    InstanceTypeRow(r"standard_nd\d+is\w*_h100_v5", "H100-80GB"),
    InstanceTypeRow(r"standard_ncc?\d+adi?s_h100_v5", "H100-94GB"),
    InstanceTypeRow(r"standard_nd\d+is\w*_h200_v5", "H200-141GB"),
    InstanceTypeRow(r"standard_nd\d+is\w*_mi300x_v5", "MI300X"),
    InstanceTypeRow(r"standard_nv6ads_a10_v5", "A10", fraction=6),
    InstanceTypeRow(r"standard_nv12ads_a10_v5", "A10", fraction=3),
    InstanceTypeRow(r"standard_nv18ads_a10_v5", "A10", fraction=2),
    InstanceTypeRow(r"standard_nv\d+adm?s_a10_v5", "A10"),
    # Oracle Cloud: shapes, with the number of GPUs at the end
    InstanceTypeRow(r"(bm|vm)\.gpu2\.\d+", "P100"),
    InstanceTypeRow(r"(bm|vm)\.gpu3\.\d+", "V100-16GB"),
    InstanceTypeRow(r"bm\.gpu(4|\.b4)\.8", "A100-40GB"),
    InstanceTypeRow(r"bm\.gpu\.a100-v2\.8", "A100-80GB"),
    InstanceTypeRow(r"vm\.gpu\.a100\.40g\.\d", "A100-40GB"),
    InstanceTypeRow(r"vm\.gpu\.a100\.80g\.\d", "A100-80GB"),
    InstanceTypeRow(r"(bm|vm)\.gpu\.a10\.\d+", "A10"),
    InstanceTypeRow(r"bm\.gpu\.l40s(-nc)?\.4", "L40S"),
    InstanceTypeRow(r"vm\.gpu\.l40s\.\d", "L40S"),
    InstanceTypeRow(r"bm\.gpu\.h100t?(-nc)?\.8", "H100-80GB"),
    InstanceTypeRow(r"bm\.gpu\.h200(-nc)?\.8", "H200-141GB"),
    InstanceTypeRow(r"bm\.gpu\.b200\.8", "B200-180GB"),
    InstanceTypeRow(r"bm\.gpu\.b300\.8", "B300"),
    InstanceTypeRow(r"bm\.gpu\.gb200(-v\d)?\.4", "GB200-186GB"),
    InstanceTypeRow(r"bm\.gpu\.gb300(-v\d)?\.4", "GB300"),
    InstanceTypeRow(r"bm\.gpu\.rtxpro\.8", "RTX-PRO-6000"),
    InstanceTypeRow(r"bm\.gpu\.mi300x(-v\d)?\.8", "MI300X"),
    InstanceTypeRow(r"bm\.gpu\.mi355x(-v\d)?\.8", "MI355X"),
    # DigitalOcean: droplets, with the number of GPUs after the x, and kinds such as -fabric-contracted
    InstanceTypeRow(r"gpu-h100x\d-\d+gb(-.+)?", "H100-80GB"),
    InstanceTypeRow(r"gpu-h200x\d-\d+gb(-.+)?", "H200-141GB"),
    InstanceTypeRow(r"gpu-b300x\d-\d+gb(-.+)?", "B300"),
    InstanceTypeRow(r"gpu-l40sx\d-\d+gb(-.+)?", "L40S"),
    InstanceTypeRow(r"gpu-4000adax\d-\d+gb(-.+)?", "RTX-4000-ADA"),
    InstanceTypeRow(r"gpu-6000adax\d-\d+gb(-.+)?", "RTX-6000-ADA"),
    InstanceTypeRow(r"gpu-mi300x\d-\d+gb(-.+)?", "MI300X"),
    InstanceTypeRow(r"gpu-mi325x\d-\d+gb(-.+)?", "MI325X"),
    InstanceTypeRow(r"gpu-mi350x\d-\d+gb(-.+)?", "MI350X"),
    InstanceTypeRow(r"gpu-mi355x\d-\d+gb(-.+)?", "MI355X"),
    # IBM Cloud: flavors of workers in VPCs, with the number of GPUs before the model
    InstanceTypeRow(r"gx2\.\d+x\d+\.\d?v100", "V100-16GB"),
    InstanceTypeRow(r"gx3\.\d+x\d+\.\d?l4", "L4"),
    InstanceTypeRow(r"gx3\.\d+x\d+\.\d?l40s", "L40S"),
    InstanceTypeRow(r"gx3d\.\d+x\d+\.\dh100", "H100-80GB"),
    InstanceTypeRow(r"gx3d\.\d+x\d+\.\dh200", "H200-141GB"),
)

VGPU_BOARDS: Mapping[str, str] = {
    "P100X": "P100",
    "P100C": "P100-12GB",
    "V100": "V100-16GB",
    "V100X": "V100-16GB",
    "V100L": "V100-16GB",
    "V100D": "V100-32GB",
    "V100DX": "V100-32GB",
    "A100": "A100-40GB",
    "A100X": "A100-40GB",
    "A100D": "A100-80GB",
    "A100DX": "A100-80GB",
    "A800": "A800-40GB",
    "A800D": "A800-80GB",
    "A800DX": "A800-80GB",
    "H100": "H100-80GB",
    "H100XM": "H100-80GB",
    "H100L": "H100-94GB",
    "H100XL": "H100-94GB",
    "H100XS": "H100-64GB",
    "H800": "H800-80GB",
    "H800XM": "H800-80GB",
    "H800L": "H800-94GB",
    "H200": "H200-141GB",
    "H200X": "H200-141GB",
    "H20": "H20-96GB",
    "H20X": "H20-141GB",
    "RTX-6000": "QUADRO-RTX-6000",
    "RTX-6000P": "QUADRO-RTX-6000",
    "RTX-8000": "QUADRO-RTX-8000",
    "RTX-8000P": "QUADRO-RTX-8000",
    "RTX-PRO-6000-BLACKWELL-DC": "RTX-PRO-6000",
}
"""The GPUs of vGPU types by what a type's name calls the board, where that is no name of the GPU. Source:
NVIDIA AI Enterprise, "Virtual GPU Types for Supported GPUs"."""

# Devices that one AMD GPU is seen as, by compute partition mode; spx is the whole GPU.
AMD_PARTITIONS: Mapping[str, int] = {"dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}

AMD_DEVICES: Mapping[str, str] = {
    "738c": "MI100",
    "738e": "MI100",
    "7408": "MI250X",
    "740c": "MI250X",
    "740f": "MI210",
    "7410": "MI210",
    "74a0": "MI300A",
    "74a1": "MI300X",
    "74a2": "MI308X",
    "74a5": "MI325X",
    "74a8": "MI308X",
    "74a9": "MI300X",
    "74b5": "MI300X",
    "74b6": "MI308X",
    "74b9": "MI325X",
    "74bc": "MI308X",
    "74bd": "MI300X",
    "75a0": "MI350X",
    "75a3": "MI355X",
    "75a8": "MI350P",
    "75b0": "MI350X",
    "75b3": "MI355X",
    "75b8": "MI350P",
    "7460": "V710",
    "7461": "V710",
}
"""AMD's GPUs and their virtual functions by PCI device id, as the label amd.com/gpu.device-id has it: some
virtual functions have no product name. Sources: the PCI ID repository, vendor 1002; the AMD GPU Operator's
rules for Node Feature Discovery (ROCm/gpu-operator, docs/installation/openshift-olm.md); amdgpu.ids of its
node labeller (ROCm/k8s-device-plugin). 740c is of MI250X and MI250."""

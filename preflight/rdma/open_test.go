package rdma

import (
	"fmt"
	"strings"
	"testing"

	"launch/preflight/checktest"
)

// answers is what libibverbs says of devices: those in not do not open, for a cause.
func answers(names []string, cause string, not ...string) string {
	var out []string
	for _, n := range names {
		d := fmt.Sprintf(`{"name":%q,"opens":true}`, n)
		for _, bad := range not {
			if n == bad {
				d = fmt.Sprintf(`{"name":%q,"opens":false,"err":"because of %s","cause":%[2]q}`, n, cause)
			}
		}
		out = append(out, d)
	}
	return `verbs {"present":true,"devices":[` + strings.Join(out, ",") + "]}\n"
}

// seen is what NVML says of GPUs at the switches of an of.
func seen(gpus int) string {
	var out []string
	for i := range gpus {
		out = append(out, fmt.Sprintf(`{"index":%d,"name":"NVIDIA H100","pci":"%04x:03:00.0","minor":%[1]d}`, i, i+1))
	}
	return `nvml {"present":true,"devices":[` + strings.Join(out, ",") + "]}\n"
}

func TestOneOfSeveralDoesNotOpen(t *testing.T) {
	named := func(format string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return out
	}
	thor := func(i int) string {
		return fmt.Sprintf("@.0 14e4:1760 0200 bnxt_en\n  hca bnxt_re%[1]d\n    port 1 ACTIVE LinkUp 400 Ethernet\n"+
			"      gid 1 ::ffff:10.70.%[1]d.9 v2 fe%[1]d\n  net fe%[1]d speed=400000 addr=10.70.%[1]d.9/24\n", i)
	}
	ib := func(i int) string {
		return fmt.Sprintf("@.0 15b3:1021 0207 mlx5_core\n  hca ib%[1]d type=MT4129\n"+
			"    port 1 ACTIVE LinkUp 400 InfiniBand lid=0x%[2]x sm=0x3 pkeys=0xffff\n      gid 0 fe80::8c0:eb03:0:%[1]x v1\n",
			i, 0x40+i)
	}
	bare := func(i int) string {
		text := strings.ReplaceAll(ib(i), "type=MT4129", "type=MT4129 uverbs="+fmt.Sprint(i))
		if i == 1 {
			return strings.ReplaceAll(text, "uverbs=1", "uverbs=none")
		}
		return text
	}
	efa := func(i int) string {
		return fmt.Sprintf("@.0 1d0f:efa2 0200 efa\n  hca rdmap%d node=7\n    port 1 ACTIVE LinkUp 200\n", i)
	}
	dark := func(i int) string {
		if i == 2 {
			return strings.ReplaceAll(ib(i), "ACTIVE LinkUp", "DOWN Disabled")
		}
		return ib(i)
	}
	storage := uplink + "pci00f1:00\n  00f1:01:00.0 15b3:101d 0200 mlx5_core\n    hca stor0 type=MT4125\n" +
		"      port 1 ACTIVE LinkUp 100 Ethernet\n        gid 1 ::ffff:10.9.9.9 v2 st0\n    net st0 addr=10.9.9.9/24\n"
	const h100, pod = "10de:2330 0302 nvidia", "env KUBERNETES_SERVICE_HOST=10.96.0.1\n"
	const route = "route eno1 192.168.9.7\n"
	like := func(name string) string {
		return "warn " + name + " is a card like the rails of this node, and this process cannot open it"
	}
	for _, tt := range []struct {
		name, head string
		machine    of
		want       string
	}{
		{"all open", answers(named("bnxt_re%d", 8), ""), of{8, instinct, thor, uplink}, "ok bnxt_re0 opens"},
		{"one has failed", answers(named("bnxt_re%d", 8), "device", "bnxt_re6"), of{8, instinct, thor, uplink},
			like("bnxt_re6") + ": because of device"},
		{"one has no port any more", answers(named("ib%d", 4), "device", "ib2"), of{4, instinct, dark, uplink}, like("ib2")},
		{"one has no memory", answers(named("ib%d", 4), "resources", "ib0"), of{4, instinct, ib, uplink}, like("ib0")},
		{"one is forbidden", answers(named("ib%d", 5), "permission", "ib4"), of{5, instinct, ib, uplink}, like("ib4")},
		{"two have no file", answers(named("bnxt_re%d", 8), "no-uverbs", "bnxt_re1", "bnxt_re3"),
			of{8, instinct, thor, uplink}, "warn bnxt_re1, bnxt_re3 are cards like the rails of this node"},
		{"one has no device node", "", of{6, instinct, bare, uplink}, like("ib1")},
		{"one EFA of four", answers(named("rdmap%d", 4), "permission", "rdmap3"), of{4, "1d0f:7364 0880 neuron", efa, uplink},
			like("rdmap3")},
		{"a card of another make", answers(append(named("ib%d", 4), "stor0"), "permission", "stor0"),
			of{4, instinct, ib, storage}, "ok ib0 opens"},
		{"a pod with its one GPU and device", pod + seen(1) + answers(named("ib%d", 8), "no-uverbs", named("ib%d", 8)[1:]...),
			of{8, h100, ib, uplink}, "ok ib0 opens"},
		{"a container without a mark, with its one GPU", seen(1) + answers(named("ib%d", 8), "no-uverbs",
			named("ib%d", 8)[1:]...), of{8, h100, ib, uplink}, "ok ib0 opens"},
		{"a pod with half of the GPUs", pod + seen(4) + answers(named("ib%d", 8), "permission", named("ib%d", 8)[4:]...),
			of{8, h100, ib, uplink}, "ok ib0 opens"},
		{"a pod with all GPUs and not all devices", pod + seen(8) + answers(named("ib%d", 8), "no-uverbs", "ib5"),
			of{8, h100, ib, uplink}, like("ib5")},
		{"a pod whose own device has failed", pod + seen(2) + answers(named("ib%d", 8), "device", "ib1"),
			of{8, h100, ib, uplink}, like("ib1")},
		{"a pod whose GPUs are not known", pod + answers(named("bnxt_re%d", 8), "permission", named("bnxt_re%d", 8)[1:]...),
			of{8, instinct, thor, uplink}, "ok bnxt_re0 opens"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.machine.input(t, route+tt.head)
			if strings.HasPrefix(tt.head, pod) {
				in.Node.Container.Kind = "kubernetes"
			}
			in.Node.Software.HIP = "7.0"
			if strings.Contains(tt.machine.gpu, "neuron") || strings.Contains(tt.machine.gpu, "nvidia") {
				in.Node.Software.HIP = ""
			}
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.open", in), tt.want)
		})
	}
}

// Each accelerator is a sign that the job uses RDMA, and a place for a rail; a console is not.
func TestRailsNextToOtherAccelerators(t *testing.T) {
	ib := func(i int) string {
		state := "ACTIVE LinkUp 200"
		if i == 2 {
			state = "DOWN Polling 10"
		}
		return fmt.Sprintf("@.0 15b3:101b 0207 mlx5_core\n  hca ib%[1]d type=MT4123\n    port 1 %[2]s InfiniBand "+
			"lid=0x%[3]x sm=0x3 pkeys=0xffff\n      gid 0 fe80::8c0:eb03:0:%[1]x v1\n", i, state, 0x40+i)
	}
	const lost = "warn ib2 is like the rails of this node and has no link"
	const cpus = "skip no sign that the job uses RDMA"
	for _, tt := range []struct{ name, gpu, want string }{
		{"Max", "8086:0bd5 0380 i915", lost},
		{"Arc", "8086:e211 0300 xe", lost},
		{"Gaudi", "1da3:1020 1200 habanalabs", lost},
		{"Ascend", "19e5:d802 1200 devdrv_device_driver", lost},
		{"MetaX", "9999:4000 0380 metax", lost},
		{"Moore Threads", "1ed5:0323 0300 mtgpu", lost},
		{"Tenstorrent", "1e52:401e 1200 tenstorrent", lost},
		{"Trainium", "1d0f:7364 0880 neuron", lost},
		{"Hygon", "1d94:6210 0b40 hydcu", lost},
		{"another one", "1d95:0003 1200 ipu", lost},
		{"a console", "1a03:2000 0300 ast", cpus},
		{"FPGAs", "10ee:5000 1200 xclmgmt", cpus},
		{"TPUs", "1ae0:006f 1200 vfio-pci", cpus},
		{"for guests", "8086:0bd5 0380 vfio-pci", cpus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := of{4, tt.gpu, ib, uplink}.input(t, "route eno1 192.168.9.7\n")
			in.Node.Software.CUDA, in.Node.Software.Torch.Version = "", ""
			in.Node.GPUs.Absent = "libnvidia-ml.so.1 is not installed"
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.link", in), tt.want)
		})
	}
}

package fabric

import (
	"encoding/binary"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestGenerationOfALink(t *testing.T) {
	for in, want := range map[string]int{
		"2.5 GT/s PCIe": 1, "5.0 GT/s PCIe": 2, "8.0 GT/s PCIe": 3, "16.0 GT/s PCIe": 4, "32.0 GT/s PCIe": 5,
		"64.0 GT/s PCIe": 6,
		"8 GT/s":         3, "5 GT/s": 2, "Unknown": 0, "Unknown speed": 0, "": 0, "128.0 GT/s": 0,
	} {
		if got := generation(in); got != want {
			t.Errorf("generation(%q) = %d, want %d", in, got, want)
		}
	}
}

func TestPathAboveAFunction(t *testing.T) {
	for in, want := range map[string][]string{
		"../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0":                            {"pci0000:15", "0000:15:01.0"},
		"../../../devices/pci0000:00/0000:00:05.0":                                         {"pci0000:00"},
		"../../../devices/LNXSYSTM:00/VMBUS:01/4715-a1/pci0101:00/0101:00:00.0":            {"pci0101:00"},
		"../../../devices/pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0": {"pci10000:00", "10000:00:02.0"},
		"../../../devices/platform/soc":                                                    nil,
		"":                                                                                 nil,
	} {
		if diff := cmp.Diff(want, pathAbove(in)); diff != "" {
			t.Errorf("pathAbove(%q) (-want +got):\n%s", in, diff)
		}
	}
}

func TestFunctionOfADevice(t *testing.T) {
	for in, want := range map[string]string{
		"../../devices/pci0000:80/0000:80:02.2/0000:82:00.0/infiniband/mlx4_0":                       "0000:82:00.0",
		"../../devices/pci0000:00/0000:00:08.0/mlx5_core.sf.4/infiniband/mlx5_2":                     "0000:00:08.0",
		"../../devices/virtual/infiniband/rxe0":                                                      "",
		"../../../0000:18:00.0":                                                                      "0000:18:00.0",
		"../../devices/pci10000:00/10000:00:02.0/10000:01:00.0/net/eth0":                             "10000:01:00.0",
		"../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0":                                     "0000:00:03.0",
		"../../devices/pci0000:00/0000:00:1g.0/net/eth0":                                             "",
		"../../devices/LNXSYSTM:00/device:00/VMBUS:01/f8b3781b-1e82-4818-a1c3-63d806ec15bb/net/eth0": "",
	} {
		if got := functionOf(in); got != want {
			t.Errorf("functionOf(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestDriverOfADeviceThatHidesItsFunction(t *testing.T) {
	tests := []struct{ name, hcaType, want string }{
		{"mlx5_0", "", "mlx5_core"}, {"mlx5_bond_0", "", "mlx5_core"}, {"mlx5_ib3", "", "mlx5_core"},
		{"mlx4_1", "", "mlx4_core"},
		{"bnxt_re2", "", "bnxt_en"}, {"bnxt_re_bond4", "", "bnxt_en"}, {"hfi1_0", "", "hfi1"}, {"qib0", "", "ib_qib"},
		{"rxe0", "", "rdma_rxe"},
		{"siw0", "", "siw"}, {"irdma1", "", "irdma"}, {"usnic_2", "", "enic"}, {"efa_0", "", "efa"},
		{"rocep6s16", "MT4120", "mlx5_core"}, {"ibp5s0", "MT26428", "mlx4_core"}, {"ibp5s0", "MT4099", "mlx4_core"},
		{"rocep3s0", "MT41692", "mlx5_core"},
		{"rocep49s0", "", ""}, {"ibs1", "MTfast", ""}, {"mlx5", "", ""}, {"scif0", "", ""},
	}
	for _, tt := range tests {
		if got := driverByName(tt.name, tt.hcaType); got != tt.want {
			t.Errorf("driverByName(%q, %q) = %q, want %q", tt.name, tt.hcaType, got, tt.want)
		}
	}
}

func TestVirtualFunctionsOfMellanoxByNumber(t *testing.T) {
	for device, want := range map[string]bool{
		"0x1014": true, "0x1018": true, "0x101e": true, "0x1004": true, "0xa2d3": true, "4126": true,
		"0x1013": false, "0x1021": false, "0x1020": false, "0x1010": false, "0xa2dc": false, "": false, "ConnectX": false,
	} {
		if got := isVF(VendorMellanox, device); got != want {
			t.Errorf("isVF(%s) = %v, want %v", device, got, want)
		}
	}
	if isVF("0x14e4", "0x101e") {
		t.Error("another vendor's 0x101e is taken for a VF")
	}
}

// registers returns a configuration space with extended capabilities: their number and
// where each begins.
func registers(size int, caps ...[2]int) []byte {
	b := make([]byte, size)
	for i, c := range caps {
		next := 0
		if i+1 < len(caps) {
			next = caps[i+1][1]
		}
		binary.LittleEndian.PutUint32(b[c[1]:], uint32(c[0]|1<<16|next<<20))
	}
	return b
}

func TestRedirectsOfABridge(t *testing.T) {
	on := registers(4096, [2]int{0x0001, 0x100}, [2]int{0x0019, 0x148}, [2]int{acsCapability, 0x220})
	on[0x220+acsControl] = 0x1d // source validation, both redirects, upstream forwarding
	off := registers(4096, [2]int{0x0001, 0x100}, [2]int{acsCapability, 0x220})
	off[0x220+acsControl] = 0x01 // only source validation
	loop := registers(4096, [2]int{0x0001, 0x100}, [2]int{0x0019, 0x148})
	binary.LittleEndian.PutUint32(loop[0x148:], 0x19|0x100<<20) // back to the first
	gone := make([]byte, 4096)
	for i := range gone {
		gone[i] = 0xff // a device that no longer answers
	}
	for _, tt := range []struct {
		name   string
		config []byte
		want   string
	}{
		{"redirects", on, "on"},
		{"source validation alone", off, "off"},
		{"no such capability", registers(4096, [2]int{0x0001, 0x100}), "off"},
		{"no extended capability", make([]byte, 4096), "off"},
		{"64 bytes for an ordinary user", make([]byte, 64), ""},
		{"conventional PCI", make([]byte, 256), ""},
		{"a list that ends nowhere", loop, "off"},
		{"a device that is gone", gone, "off"},
	} {
		sys := fstest.MapFS{"config": {Data: tt.config}}
		if got := ReadACS(sys, "config"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := ReadACS(fstest.MapFS{}, "config"); got != "" {
		t.Errorf("without a file: %q, want unknown", got)
	}
}

func TestOneBridgeThatRedirectsIsEnough(t *testing.T) {
	config := func(control byte) *fstest.MapFile {
		b := registers(4096, [2]int{acsCapability, 0x100})
		b[0x100+acsControl] = control
		return &fstest.MapFile{Data: b}
	}
	sys := fstest.MapFS{
		pciDevices + "/0000:15:01.0/config": config(0), pciDevices + "/0000:16:00.0/config": config(acsRedirects),
		pciDevices + "/0000:17:00.0/config": {Data: make([]byte, 64)},
	}
	for _, tt := range []struct {
		path []string
		want string
	}{
		{[]string{"pci0000:15", "0000:15:01.0"}, "off"},
		{[]string{"pci0000:15", "0000:15:01.0", "0000:16:00.0"}, "on"},
		{[]string{"pci0000:15", "0000:15:01.0", "0000:17:00.0"}, ""},
		{[]string{"pci0000:15"}, ""},
		{nil, ""},
	} {
		r := redirects{sys: sys}
		if got := r.on(tt.path); got != tt.want {
			t.Errorf("redirects above %v: %q, want %q", tt.path, got, tt.want)
		}
	}
}

func FuzzFunctions(f *testing.F) {
	f.Add("../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0", "0x020700", "0x15b3", "0x1021", "16.0 GT/s PCIe",
		[]byte{0xd, 0, 1, 0})
	f.Fuzz(func(t *testing.T, target, class, vendor, device, speed string, config []byte) {
		const at = pciDevices + "/0000:16:00.0"
		sys := fstest.MapFS{
			"devices/x/class": {Data: []byte(class)}, "devices/x/vendor": {Data: []byte(vendor)},
			"devices/x/device":             {Data: []byte(device)},
			"devices/x/current_link_speed": {Data: []byte(speed)}, "devices/x/numa_node": {Data: []byte(device)},
			"devices/x/config": {Data: config},
			at:                 {Data: []byte("../../../devices/x"), Mode: fs.ModeSymlink},
		}
		new(Node).readPCI(t.Context(), sys)
		pathAbove(target)
		functionOf(target)
		driverByName(target, class)
		ReadACS(sys, at+"/config")
	})
}

func TestPCIeRateFollowsTheGeneration(t *testing.T) {
	for _, tt := range []struct {
		gen, lanes int
		want       float64
	}{{1, 1, 2}, {2, 8, 32}, {3, 16, 128}, {5, 16, 512}, {7, 32, 4096}, {0, 16, 0}, {8, 16, 0}, {4, 0, 0}, {4, 63, 0}} {
		if got := PCIeRate(tt.gen, tt.lanes); got != tt.want {
			t.Errorf("generation %d, %d lanes: %g Gb/s, want %g", tt.gen, tt.lanes, got, tt.want)
		}
	}
}

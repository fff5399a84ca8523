package fabric

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseGID(t *testing.T) {
	for in, want := range map[string]string{
		"0000:0000:0000:0000:0000:ffff:0a0b:0c0d": "10.11.12.13",
		"fe80:0000:0000:0000:b83f:d203:00a1:0001": "fe80::b83f:d203:a1:1",
		"2001:0db8:0000:0001:0000:0000:0000:0021": "2001:db8:0:1::21",
		"0200:00ff:fe00:1234:0000:0000:0000:0000": "200:ff:fe00:1234::", // iWARP: an address of the card is first
		"0000:0000:0000:0000:0000:0000:0000:0000": "",
		"fe80:0000:0000:0000:0000:0000:0000:0000": "",
	} {
		addr, set, err := parseGID(in)
		if err != nil || set != (want != "") || set && addr.String() != want {
			t.Errorf("parseGID(%q) = %v, %v, %v, want %q", in, addr, set, err, want)
		}
	}
	for _, in := range []string{"", "10.0.0.1", "fe80::1%eth0", "not a GID", "0000:0000"} {
		if addr, set, err := parseGID(in); err == nil || set {
			t.Errorf("parseGID(%q) = %v, %v, want an error", in, addr, set)
		}
	}
}

func TestKernelVersion(t *testing.T) {
	for in, want := range map[string][2]int{"5.15.0-91-generic": {5, 15}, "6.1": {6, 1},
		"5.14.21-150500.55.49-cray": {5, 14}, "6.11-rc3": {6, 11}} {
		major, minor, ok := kernelVersion(in)
		if !ok || [2]int{major, minor} != want {
			t.Errorf("kernelVersion(%q) = %d, %d, %v, want %v", in, major, minor, ok, want)
		}
	}
	for _, in := range []string{"", "5", "five.fifteen", ".15", "-1.2"} {
		if _, _, ok := kernelVersion(in); ok {
			t.Errorf("kernelVersion(%q) is a version", in)
		}
	}
}

func TestDMABufReturnsTheReasonAgainstIt(t *testing.T) {
	const open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build"
	for _, tt := range []struct{ kernel, driver, want string }{
		{"5.15.0", open, "yes"},
		{"6.1.0", open, "yes"},
		{"5.4.0-150-generic", open, "Linux 5.4 is older than 5.12"},
		{"5.15.0", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15",
			"the driver's kernel modules are the closed ones"},
		{"5.15.0", "", ""},
		{"", open, ""},
	} {
		if got := dmaBuf(tt.kernel, tt.driver); got != tt.want {
			t.Errorf("dmaBuf(%q, %.40q) = %q, want %q", tt.kernel, tt.driver, got, tt.want)
		}
	}
}

func TestContainersAreRecognizedByTheirMarks(t *testing.T) {
	file := &fstest.MapFile{}
	tests := []struct {
		want   string
		env    map[string]string
		root   fstest.MapFS
		cgroup string
	}{
		{want: ""},
		{want: "", cgroup: "0::/user.slice/user-1000.slice/session-2.scope"},
		{want: "kubernetes", env: map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
			root: fstest.MapFS{".dockerenv": file}},
		{want: "kubernetes", root: fstest.MapFS{"var/run/secrets/kubernetes.io/serviceaccount/token": file}},
		{want: "kubernetes", cgroup: "12:cpu:/kubepods/besteffort/pod1"},
		{want: "docker", root: fstest.MapFS{".dockerenv": file}},
		{want: "docker", cgroup: "0::/system.slice/docker-0f.scope\n1:name=/docker/0f"},
		{want: "podman", root: fstest.MapFS{"run/.containerenv": file}},
		{want: "podman", env: map[string]string{"container": "podman"}},
		{want: "apptainer", root: fstest.MapFS{".singularity.d/env": file}},
		{want: "lxc", cgroup: "0::/lxc/one"},
		{want: "systemd-nspawn", env: map[string]string{"container": "systemd-nspawn"}},
	}
	for _, tt := range tests {
		r := Roots{Root: tt.root, Proc: fstest.MapFS{"self/cgroup": {Data: []byte(tt.cgroup)}},
			Env: func(name string) string { return tt.env[name] }}
		if got := container(r.filled(), &Node{}).Kind; got != tt.want {
			t.Errorf("with %v, %v, %q: %q, want %q", tt.env, tt.root, tt.cgroup, got, tt.want)
		}
	}
}

func TestModeOfTheRDMANamespacesIsNetlinksOrTheModules(t *testing.T) {
	says := func(mode string, err error) func() (string, error) {
		return func() (string, error) { return mode, err }
	}
	refused := errors.New("operation not supported")
	device := []HCA{{Name: "mlx5_0"}}
	for _, tt := range []struct {
		name string
		ask  func() (string, error)
		file string
		hcas []HCA
		want string
	}{
		{"netlink", says("exclusive", nil), "", device, "exclusive"},
		{"netlink before the file", says("shared", nil), "N", device, "shared"},
		{"an unknown mode", says("unknown", nil), "", device, ""},
		{"no answer", says("", refused), "", device, ""},
		{"no answer, but the file", says("", refused), "N", device, "exclusive"},
		{"the file alone", nil, "Y", device, "shared"},
		{"neither", nil, "", device, ""},
		{"no device: nothing is asked", says("exclusive", nil), "", nil, ""},
	} {
		sys := fstest.MapFS{}
		if tt.file != "" {
			sys["module/ib_core/parameters/netns_mode"] = &fstest.MapFile{Data: []byte(tt.file + "\n")}
		}
		n := Node{HCAs: tt.hcas}
		if got := rdmaMode((Roots{Sys: sys, RDMA: tt.ask}).filled(), &n); got != tt.want || len(n.Unknown) != 0 {
			t.Errorf("%s: %q, want %q; unknown %v", tt.name, got, tt.want, n.Unknown)
		}
	}
}

func TestCloudWithoutDMIIsRecognizedByItsNetworkCards(t *testing.T) {
	for vendor, want := range map[string]Cloud{
		VendorAmazon: {Provider: "aws"}, // a metal instance has the same cards
		vendorGoogle: {Provider: "gcp", Virtual: true}, VendorMellanox: {},
	} {
		d := dir{fsys: fstest.MapFS{}, name: "class/dmi/id"}
		if got := cloud(&d, []PCI{{Vendor: vendor}}); got != want {
			t.Errorf("vendor %s: %+v, want %+v", vendor, got, want)
		}
	}
	d := dir{fsys: fstest.MapFS{"sys_vendor": {Data: []byte("Microsoft Corporation")},
		"product_name": {Data: []byte("Virtual Machine")}}, name: "."}
	if got := cloud(&d, nil); got != (Cloud{Virtual: true}) {
		t.Errorf("a Hyper-V VM that is not Azure's: %+v", got)
	}
}

func TestADeviceThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		start := time.Now()
		got := each(t.Context(), fstest.MapFS{}, "class/infiniband", []string{"mlx5_0", "mlx5_1", "mlx5_2"},
			func(d *dir, name string) string {
				if name == "mlx5_1" {
					<-release
				}
				if name == "mlx5_2" {
					d.blame("ports/1/state", errors.New("input/output error"))
				}
				return name
			})
		if took := time.Since(start); took != deviceBudget {
			t.Errorf("it took %v, want the budget of %v", took, deviceBudget)
		}
		want := []reading[string]{
			{value: "mlx5_0"},
			{bad: &Unknown{What: "class/infiniband/mlx5_1", Why: "it did not answer within 3s"}},
			{value: "mlx5_2", bad: &Unknown{What: "class/infiniband/mlx5_2/ports/1/state", Why: "input/output error"}},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(reading[string]{})); diff != "" {
			t.Errorf("the answers (-want +got):\n%s", diff)
		}
		close(release)
	})
}

func TestNothingIsReadOnceTheTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := eightGPUs()
	n := Detect(ctx, m.roots(m.sys), Options{})
	if len(n.HCAs) != 9 || n.HCAs[0].Name == "" {
		t.Errorf("%d HCAs, want the names of all 9 at least", len(n.HCAs))
	}
}

func FuzzFacts(f *testing.F) {
	f.Add("0000:0000:0000:0000:0000:ffff:0a0b:0c0d", "5.15.0-91-generic",
		"Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-1\nDevice Minor: \t 3")
	f.Fuzz(func(t *testing.T, gid, kernel, information string) {
		addr, set, err := parseGID(gid)
		if set && (err != nil || !addr.IsValid() || addr.Is4In6()) {
			t.Errorf("parseGID(%q) = %v, %v, %v", gid, addr, set, err)
		}
		if major, minor, ok := kernelVersion(kernel); ok && (major < 0 || minor < 0) {
			t.Errorf("kernelVersion(%q) = %d, %d", kernel, major, minor)
		}
		c := Card{Minor: -1}
		if c.describe(information); c.Minor < -1 {
			t.Errorf("describe(%q): minor %d", information, c.Minor)
		}
		virtual(Cloud{}, gid, kernel)
		dmaBuf(kernel, information)
		mellanoxDriver(gid)
	})
}

func TestDefaultRouteIsAFact(t *testing.T) {
	m := newMachine("cpu-1")
	roots := m.roots(m.sys)
	want := Route{Src: netip.MustParseAddr("10.0.0.5"), Interface: "eth0"}
	roots.Route = func() (Route, error) { return want, nil }
	if got := Detect(t.Context(), roots, Options{}).Route; got != want {
		t.Errorf("route = %+v, want %+v", got, want)
	}
	roots.Route = func() (Route, error) { return Route{}, errors.New("network is unreachable") }
	if got := Detect(t.Context(), roots, Options{}); got.Route != (Route{}) || len(got.Unknown) != 0 {
		t.Errorf("without a default route: %+v, unknown %v, want neither", got.Route, got.Unknown)
	}
}

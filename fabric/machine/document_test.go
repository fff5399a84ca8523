package machine_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"launch/fabric/machine"
)

// documented is a machine with every line and every key that docs/machines.md describes.
const documented = `machine/1
title a machine with everything
host gpu-17
kernel 5.15.0-94-generic
memlock 65536
shm 1073741824
dmi sys_vendor=Maker product_name="A server"
env NCCL_DEBUG=WARN
nvidia 535.161.08 open
module nvidia_peermem version=535.161.08
route eth0 10.20.0.17
rdma exclusive
nvml {"present": true, "driver": "535.161.08"}
verbs {"present": false, "absent": "no libibverbs"}
software {"torch": {"version": "2.9.0"}}
virtual
  net bond0 kind=bond mode="802.3ad 4" addr=10.30.0.1/24
  hca rxe0 parent=eth0 node=1 uverbs=none
    port 1 ACTIVE LinkUp 100 Ethernet
pci0000:15 numa=0
  0000:15:01.0 bridge acs=on
    0000:16:00.0 15b3:1021 0207 mlx5_core gen=5 maxgen=5 lanes=16 maxlanes=16 numa=0 iommu=DMA
      hca mlx5_0 type=MT4129 fw=28.38 board=MT_0 node=1 guid=b83f:d203:00a1:0000 system=b83f:d203:00a1:0000 uverbs=0
        port 1 ACTIVE LinkUp 400 Ethernet lid=0x0 sm=0x0 pkeys=0xffff slots=4
          gid 0 fe80::b83f:d203:00a1:0000 v1
          gid 1 10.20.0.17 v2 eth0
      net eth0 up kind=physical mtu=9000 speed=400000 addr=10.20.0.17/16 master=bond0 port=0 type=1 ruled=10.20.0.17
    0000:16:00.1 15b3:1021 0207 mlx5_core physfn=0000:16:00.0
      net eth1 nocarrier
      net eth2 down
    0000:17:00.0 10de:2330 0302 nvidia
      gpu "NVIDIA H100" uuid=GPU-00000000-0000-4000-8000-000000000001 minor=0
file proc/sys/net/ipv4/tcp_mem "1 2 3"
link sys/class/x ../y
dir sys/class/empty
error sys/class/broken EIO
`

var (
	code   = regexp.MustCompile("`([^`]+)`")
	keyRE  = regexp.MustCompile(`\[?([a-z]+)=`)
	wordRE = regexp.MustCompile(`^[a-z]+$`)
)

// Every line that the page describes can be read, with every key that it lists.
func TestEveryDocumentedLineParses(t *testing.T) {
	page, err := os.ReadFile("../../docs/machines.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page2, _ := strings.Cut(string(page), "## machine/1")
	section, _, _ := strings.Cut(page2, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "/"), "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		rows++
		for _, c := range code.FindAllStringSubmatch(cells[1], -1) {
			word := strings.Fields(c[1])[0]
			if at := map[string]string{"pciDDDD:BB": "pci0000:15", "ADDRESS": "0000:16:00.0"}[word]; at != "" {
				word = at
			}
			if !strings.Contains(documented, "\n"+word+" ") && !strings.Contains(documented, " "+word+" ") &&
				!strings.Contains(documented, "\n"+word+"\n") {
				t.Errorf("the test has no line %q", c[1])
			}
			for _, k := range keyRE.FindAllStringSubmatch(c[1], -1) {
				has(t, k[1])
			}
		}
		for _, c := range code.FindAllStringSubmatch(cells[2], -1) {
			if wordRE.MatchString(c[1]) && !strings.Contains(" none shared exclusive ", " "+c[1]+" ") {
				has(t, c[1])
			}
		}
	}
	if rows < 15 {
		t.Errorf("only %d rows were found", rows)
	}
	for name, text := range map[string]string{"the page's own example": example(section), "all": documented} {
		m, err := machine.Read([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n := m.Detect(t.Context())
		if n.Hostname != "gpu-17" || n.Kernel != "5.15.0-94-generic" || len(n.HCAs) == 0 {
			t.Errorf("%s: %s with %d HCAs", name, n.Hostname, len(n.HCAs))
		}
		if name != "all" {
			continue
		}
		port := n.HCAs[0].Ports[0]
		eth0, _ := n.Interface("eth0")
		if n.Limits.Memlock != 65536 || n.Route.Interface != "eth0" || len(n.HCAs) != 2 || port.Rate != 400 ||
			len(port.GIDs) != 2 || eth0.MTU != 9000 || eth0.Master != "bond0" || n.Software.Torch.Version != "2.9.0" {
			t.Errorf("%+v", n)
		}
		if down, _ := n.Interface("eth2"); down.Up {
			t.Error("eth2 is up")
		}
	}
	for _, wrong := range []string{"nett eth0", "pci0000:15\n  0000:15:01.0 bridge acss=on", "route eth0 here"} {
		if _, err := machine.Read([]byte("machine/1\n" + wrong + "\n")); err == nil {
			t.Errorf("%q is read", wrong)
		}
	}
}

// has fails unless the test's machine has a key.
func has(t *testing.T, key string) {
	t.Helper()
	if !strings.Contains(documented, " "+key+"=") {
		t.Errorf("the test has no key %q", key)
	}
}

// example returns the indented block of a section.
func example(section string) string {
	var b strings.Builder
	for line := range strings.Lines(section) {
		if rest, ok := strings.CutPrefix(line, "    "); ok {
			b.WriteString(rest)
		}
	}
	return b.String()
}

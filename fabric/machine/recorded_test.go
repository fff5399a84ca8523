package machine_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/machine"
)

// expected is a recorded machine's own description; null means "not known", so
// everything is a pointer.
type expected struct {
	Devices []struct {
		Name, Driver, PCI, Vendor *string
		NUMA                      *int
		DeviceID                  *string `json:"device_id"`
		Type                      *string `json:"hca_type"`
		Firmware                  *string `json:"fw_ver"`
		Board                     *string `json:"board_id"`
		VF                        *bool   `json:"is_vf"`
		Ports                     []struct {
			Num       int
			State     *string
			PhysState *string  `json:"phys_state"`
			Rate      *float64 `json:"rate_gbps"`
			LinkLayer *string  `json:"link_layer"`
			Netdev    *string
			LID       *int
			SMLID     *int `json:"sm_lid"`
			GIDs      []struct {
				Index  int
				IP     *string
				Type   *string
				Netdev *string
			}
		}
	}
	GPUs struct {
		Devices []struct {
			PCI      *string
			NUMA     *int
			Distance map[string]string
		}
	}
	Netdevs  []struct{ Name, PCI, Driver *string }
	Platform struct {
		Cloud, Instance *string
		Virtual         *bool
	}
}

// score counts agreement by field, and collects disagreement.
type score struct {
	right, asked map[string]int
	misses       []miss
}

type miss struct{ field, text string }

func compare[T comparable](s *score, field, where string, want *T, got T) {
	if want == nil {
		return
	}
	s.asked[field]++
	if *want == got {
		s.right[field]++
	} else {
		s.misses = append(s.misses, miss{field, fmt.Sprintf("%s: %s: want %v, got %v", where, field, *want, got)})
	}
}

// besideProject is the folder of recorded machines next to the project.
const besideProject = "../../../shared/machines"

func TestRecordedMachinesNextToTheProject(t *testing.T) {
	if _, err := os.Stat(besideProject); err != nil {
		t.Skipf("no recorded machines next to the project: %v", err)
	}
	s := &score{map[string]int{}, map[string]int{}, nil}
	root := os.DirFS(besideProject)
	manifests, _ := fs.Glob(root, "*/*/sysfs.json") // the pattern is right
	for _, name := range manifests {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := machine.Read(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		id, _, _ := strings.Cut(name, "/")
		text, err := fs.ReadFile(root, path.Join(id, "expected.json"))
		var want expected
		if err == nil {
			err = json.Unmarshal(text, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.machine(id, want, m.Detect(t.Context()))
	}
	for _, field := range slices.Sorted(maps.Keys(s.asked)) {
		t.Logf("%-14s %4d of %4d", field, s.right[field], s.asked[field])
	}
	for _, m := range s.misses {
		if notInTheFiles[m.field] == "" {
			t.Error(m.text)
		} else {
			t.Log(m.text)
		}
	}
}

// notInTheFiles are the fields that some descriptions take from elsewhere (a command's
// output, a published shape), and that the files do not have.
var notInTheFiles = map[string]string{
	"cloud": "DMI was not recorded", "virtual": "DMI was not recorded",
	"driver": "the PCI bus was not recorded, and the device was renamed; bnxt_en is the driver of the function that " +
		"bnxt_re is on",
	"gpu": "the PCI bus was not recorded", "numa": "the PCI bus was not recorded", "vf": "the PCI bus was not recorded",
	"lid": "sysfs was recorded without it", "sm_lid": "sysfs was recorded without it",
	"netdev":   "class/net was not recorded; and of a slave and its bond, the bond holds the address",
	"phys":     "one fixture has a state that cannot be",
	"gid.type": "kernels before 4.5 do not have it",
}

func (s *score) machine(id string, want expected, got fabric.Node) {
	pci := map[string]string{}
	for _, h := range got.HCAs {
		pci[h.Name] = h.PCI
	}
	for _, f := range got.Interfaces {
		pci[f.Name] = f.PCI
	}
	for _, w := range want.Devices {
		if w.Name == nil {
			continue
		}
		where := id + " " + *w.Name
		i := slices.IndexFunc(got.HCAs, func(h fabric.HCA) bool { return h.Name == *w.Name })
		compare(s, "hca", where, w.Name, map[bool]string{true: *w.Name}[i >= 0])
		if i < 0 {
			continue
		}
		h := got.HCAs[i]
		f, _ := got.Function(h.PCI)
		compare(s, "driver", where, w.Driver, h.Driver)
		compare(s, "pci", where, w.PCI, h.PCI)
		compare(s, "vendor", where, w.Vendor, f.Vendor)
		compare(s, "device", where, w.DeviceID, f.Device)
		compare(s, "numa", where, w.NUMA, h.NUMA)
		compare(s, "type", where, w.Type, h.Type)
		compare(s, "firmware", where, w.Firmware, h.Firmware)
		compare(s, "board", where, w.Board, h.Board)
		compare(s, "vf", where, w.VF, h.VF)
		for _, wp := range w.Ports {
			at := fmt.Sprintf("%s/%d", where, wp.Num)
			j := slices.IndexFunc(h.Ports, func(p fabric.Port) bool { return p.Num == wp.Num })
			num := -1
			if j >= 0 {
				num = wp.Num
			}
			compare(s, "port", at, &wp.Num, num)
			if j < 0 {
				continue
			}
			p := h.Ports[j]
			compare(s, "state", at, wp.State, map[int]string{0: "NOP", 1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE"}[p.State])
			compare(s, "phys", at, wp.PhysState, map[int]string{1: "Sleep", 2: "Polling", 3: "Disabled",
				5: "LinkUp"}[p.PhysState])
			compare(s, "rate", at, wp.Rate, p.Rate)
			compare(s, "link", at, wp.LinkLayer, p.LinkLayer)
			compare(s, "netdev", at, wp.Netdev, p.Netdev+p.Elsewhere)
			compare(s, "lid", at, wp.LID, p.LID)
			compare(s, "sm_lid", at, wp.SMLID, p.SMLID)
			for _, wg := range wp.GIDs {
				var g fabric.GID
				if k := slices.IndexFunc(p.GIDs, func(g fabric.GID) bool { return g.Index == wg.Index }); k >= 0 {
					g = p.GIDs[k]
				}
				at := at + " gid " + strconv.Itoa(wg.Index)
				compare(s, "gid.ip", at, wg.IP, g.Addr.String())
				compare(s, "gid.type", at, wg.Type, map[string]string{"IB/RoCE v1": "v1", "RoCE v2": "v2"}[g.Type])
				compare(s, "gid.netdev", at, wg.Netdev, g.Netdev)
			}
		}
	}
	for _, w := range want.GPUs.Devices {
		if w.PCI == nil {
			continue
		}
		where := id + " gpu " + *w.PCI
		f, _ := got.Function(*w.PCI)
		card := slices.IndexFunc(got.Cards, func(c fabric.Card) bool { return c.PCI == *w.PCI })
		compare(s, "gpu", where, w.PCI, map[bool]string{true: *w.PCI}[card >= 0])
		compare(s, "gpu.numa", where, w.NUMA, f.NUMA)
		for name, d := range w.Distance {
			to := name
			if a, ok := pci[name]; ok {
				to = a
			}
			compare(s, "distance", where+" to "+name, &d, string(got.Distance(*w.PCI, to)))
		}
	}
	for _, w := range want.Netdevs {
		if w.Name == nil {
			continue
		}
		f, ok := got.Interface(*w.Name)
		compare(s, "interface", id+" "+*w.Name, w.Name, map[bool]string{true: *w.Name}[ok])
		compare(s, "if.pci", id+" "+*w.Name, w.PCI, f.PCI)
		compare(s, "if.driver", id+" "+*w.Name, w.Driver, f.Driver)
	}
	compare(s, "virtual", id, want.Platform.Virtual, got.Cloud.Virtual)
	compare(s, "cloud", id, want.Platform.Cloud, got.Cloud.Provider)
}

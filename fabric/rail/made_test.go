package rail

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// made is one machine of testdata/made.txt: a description for machine.Read, and the right answer.
type made struct {
	name, class string
	text        string // machine/1
	kind        Kind
	rails       []string
	guess       bool
	roles       map[string]string // of devices that are not rails
	gids        []string          // name=index
	peers       string            // the address that the peers use
	warned      []string          // devices that a check warns of; nil: not compared
}

// cards are what a card shows on the bus and to RDMA: id, class, driver, type.
var cards = map[string][4]string{
	"cx3": {"15b3:1003", "0280", "mlx4_core", "MT4099"}, "cx4": {"15b3:1013", "0207", "mlx5_core", "MT4115"},
	"cx4lx": {"15b3:1015", "0200", "mlx5_core", "MT4117"}, "cx5": {"15b3:1017", "0200", "mlx5_core", "MT4119"},
	"cx6": {"15b3:101b", "0207", "mlx5_core", "MT4123"}, "cx6dx": {"15b3:101d", "0200", "mlx5_core", "MT4125"},
	"cx6lx": {"15b3:101f", "0200", "mlx5_core", "MT4127"}, "cx7": {"15b3:1021", "0200", "mlx5_core", "MT4129"},
	"cx8": {"15b3:1023", "0200", "mlx5_core", "MT4131"}, "vf": {"15b3:101e", "0200", "mlx5_core", "MT4126"},
	"cx5vf": {"15b3:1018", "0200", "mlx5_core", "MT4120"}, "cx6vf": {"15b3:101c", "0207", "mlx5_core", "MT4124"},
	"bf2": {"15b3:a2d6", "0200", "mlx5_core", "MT41686"}, "bf3": {"15b3:a2dc", "0200", "mlx5_core", "MT41692"},
	"thor": {"14e4:1750", "0200", "bnxt_en", ""}, "thor2": {"14e4:1760", "0200", "bnxt_en", ""},
	"pollara": {"1dd8:1002", "0200", "ionic", ""}, "e810": {"8086:1592", "0200", "ice", ""},
	"thor2t": {"14e4:1760", "0200", "bnxt_en", "BCM57608"}, "opa": {"8086:24f0", "0208", "hfi1", ""},
	"opahfi": {"8086:24f0", "0208", "hfi1", "HFI"}, "cn5000": {"434e:0001", "0208", "hfi1", "CN5000"},
	"cassini": {"17db:0501", "0200", "cxi_core", ""}, "gaudi": {"1da3:1020", "1200", "habanalabs", ""},
	"gve": {"1ae0:0042", "0200", "gve", ""}, "ena": {"1d0f:ec20", "0200", "ena", ""},
	"virtio": {"1af4:1041", "0200", "virtio-pci", ""}, "bnxt": {"14e4:16d7", "0200", "bnxt_en", ""},
	"h100": {"10de:2330", "0302", "nvidia", "NVIDIA H100 80GB HBM3"}, "mi300x": {"1002:74a1", "1200", "amdgpu", ""},
	"gb200": {"10de:2941", "0302", "nvidia", "NVIDIA GB200"}, "l40s": {"10de:26b9", "0302", "nvidia", "NVIDIA L40S"},
	"a100": {"10de:20b2", "0302", "nvidia", "NVIDIA A100-SXM4-80GB"}, "i350": {"8086:1521", "0200", "igb", ""},
}

// slot is one place on the bus and the lines of the functions there.
type slot struct {
	path  string // the group of GPUs that it is near; "" for a root of its own
	numa  int
	lines []string
}

type maker struct {
	made
	gpus   []string // the kind of card
	layout string
	slots  []slot
	head   []string
	plain  []string // virtual interfaces
	places map[string]int
	pci    map[string]string // of each HCA, for its virtual functions
	owner  map[int]string    // by slot, its first HCA
	addrs  map[string]string // by interface
	count  int               // of HCAs
}

// readMade reads testdata/made.txt. docs/machines.md describes its lines.
func readMade(t *testing.T) []made {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "made.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out []made
	var m *maker
	done := func() {
		if m != nil {
			out = append(out, m.done())
		}
	}
	scan := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; scan.Scan(); n++ {
		line, _, _ := strings.Cut(scan.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == "machine" {
			done()
			m = &maker{made: made{name: words[1], class: words[2], roles: map[string]string{}}, places: map[string]int{},
				pci: map[string]string{}, owner: map[int]string{}, addrs: map[string]string{}}
			continue
		}
		if !m.line(words) {
			t.Fatalf("made.txt: line %d: %q is not understood", n, line)
		}
	}
	done()
	return out
}

func (m *maker) line(w []string) bool {
	pos, keys := split(w[1:])
	switch w[0] {
	case "gpu": // gpu COUNT CARD LAYOUT
		n, err := strconv.Atoi(pos[0])
		m.gpus, m.layout = slices.Repeat([]string{pos[1]}, n), pos[2]
		for i := range n {
			m.gpuAt(i)
		}
		return err == nil
	case "hca", "net":
		for i := range len(expand(pos[0])) {
			one := map[string]string{}
			for k, v := range keys {
				one[k] = pick(v, i)
			}
			if w[0] == "hca" {
				m.hca(pick(pos[0], i), pos[1], pick(pos[2], i), pos[3], one)
			} else {
				m.net(pick(pos[0], i), one)
			}
		}
	case "route":
		m.head = append(m.head, "route "+pos[0]+" @"+pos[0])
	case "pod":
		m.head = append(m.head, "env KUBERNETES_SERVICE_HOST=10.96.0.1", "rdma shared")
	case "raw":
		m.head = append(m.head, strings.Join(w[1:], " "))
	case "want": // want KIND [RAIL…] [guess]
		m.kind = Kind(pos[0])
		for _, r := range pos[1:] {
			if r == "guess" {
				m.guess = true
			} else {
				m.rails = append(m.rails, expand(r)...)
			}
		}
	case "peers":
		m.peers = pos[0]
	case "warn": // warn DEVICES, or none
		m.warned = []string{}
		if pos[0] != "none" {
			m.warned = expand(pos[0])
		}
	case "gid":
		m.gids = append(m.gids, w[1:]...)
	case "not": // not DEVICES ROLE
		for _, d := range expand(pos[0]) {
			m.roles[d] = pos[1]
		}
	default:
		return false
	}
	return true
}

var rangeRE = regexp.MustCompile(`\{(\d+)-(\d+)(?:\*(\d+))?(?:\+(\d+))?\}`)

// expand returns the values of a word with ranges: "mlx5_{0-7}", "10.{0-3*16+1}.0.1".
func expand(word string) []string {
	m := rangeRE.FindStringSubmatch(word)
	if m == nil {
		return strings.Split(word, ",")
	}
	lo, _ := strconv.Atoi(m[1])
	hi, _ := strconv.Atoi(m[2])
	var out []string
	for i := range hi - lo + 1 {
		out = append(out, rangeRE.ReplaceAllStringFunc(word, func(r string) string {
			m := rangeRE.FindStringSubmatch(r)
			from, _ := strconv.Atoi(m[1])
			times, plus := 1, 0
			if m[3] != "" {
				times, _ = strconv.Atoi(m[3])
			}
			if m[4] != "" {
				plus, _ = strconv.Atoi(m[4])
			}
			return strconv.Itoa((from+i)*times + plus)
		}))
	}
	return out
}

// pick returns the value of a word for the i-th device; a list is used in turn.
func pick(word string, i int) string {
	if rangeRE.MatchString(word) {
		return expand(word)[i]
	}
	list := strings.Split(word, "|")
	if len(list) == 1 {
		list = strings.Split(word, ",")
		if strings.Contains(word, "/") { // addresses of one interface
			list = []string{word}
		}
	}
	return list[i%len(list)]
}

func split(words []string) (pos []string, keys map[string]string) {
	keys = map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			keys[k] = v
		} else {
			pos = append(pos, w)
		}
	}
	return pos, keys
}

// place returns the slot of a name, a new one if it is not there yet.
func (m *maker) place(name, path string, numa int) int {
	i, ok := m.places[name]
	if !ok {
		i = len(m.slots)
		m.places[name] = i
		m.slots = append(m.slots, slot{path: path, numa: numa})
	}
	return i
}

package mpirun

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Facts are what the shell on a host has answered.
type Facts struct {
	Host        string // its own name
	Arch        string
	Machine     string // the same for two names of one host
	Path        string
	LibraryPath string
	Memlock     string // as ulimit prints it: KiB, or "unlimited"
	Nofile      string
	Cores       int
	// Parts are how many packages, NUMA nodes with processors, caches, cores and hardware threads the host has, by the
	// names of --map-by; nil: not known, or a shell may use some of its processors only.
	Parts map[string]int
	RDMA  []string // its HCAs
	Addrs []Address
	Clock time.Time
	// Parameters are those of its files that launch compares, as they are in force there.
	Parameters []Parameter

	InDir    bool   // the working directory exists
	Daemon   string // the file; "": not found
	Version  string // what the daemon says
	Numbers  string // what may be versions in the file of Hydra's daemon, which itself does not say it
	Denied   string // the file of a daemon that may not be executed, and
	Mount    string // the folder that is mounted noexec there; "": it is not
	Programs []Program
	Calls    []Call

	Self string // a file that is the head's launch
	Tmp  string // a folder for a copy of it; removed with the shell
	// Unpacks is the program there that unpacks a copy of launch: zstd, gzip; "": there is none.
	Unpacks string
	Noexec  []string // folders in which nothing can be executed, and
	Mounts  []string // the mounts with noexec that they are on
	Full    []Full
}

// Full is a folder in which no file of 1 MiB can be made.
type Full struct{ Dir, Said string }

// Address is an address of an interface.
type Address struct {
	Interface string
	Prefix    netip.Prefix
}

// Program is a program of the line on one host.
type Program struct {
	Word  string // as the line has it
	Found bool
	Path  string // "" where it is missing; not executable where it is not found
	Hash  string
	MPI   string   // of its libraries: openmpi, mpich; "": none, or unknown
	Lost  []string // libraries that are not found
	Mount string   // that is mounted noexec, so that it may not be executed; "": it is not
}

// Call is a call to the head.
type Call struct {
	To   string // the address or name
	Said string // what was answered, or an error
}

// ReadFacts reads the answers of a script. ok: they are complete.
func ReadFacts(lines []string) (f Facts, ok bool) {
	for _, line := range lines {
		words := strings.Split(line, "\t")
		value := func(i int) string {
			if i < len(words) {
				return strings.TrimSpace(words[i])
			}
			return ""
		}
		switch v := value(1); words[0] {
		case "host":
			f.Host = v
		case "arch":
			f.Arch = v
		case "machine":
			f.Machine = v
		case "path":
			f.Path = v
		case "library_path":
			f.LibraryPath = v
		case "memlock":
			f.Memlock = v
		case "nofile":
			f.Nofile = v
		case "cores":
			f.Cores, _ = strconv.Atoi(v)
		case "parts":
			f.Parts = f.parts(v)
		case "rdma":
			f.RDMA = strings.Fields(v)
		case "addresses":
			f.Addrs = addresses(v)
		case "clock":
			f.Clock, ok = clock(v), true
		case "dir":
			f.InDir = true
		case "daemon":
			f.Daemon = v
		case "version":
			f.Version = v
		case "program":
			f.Programs = append(f.Programs, Program{Word: v, Found: value(2) == "found", Path: value(3), Hash: value(4),
				MPI: family(value(5)), Lost: strings.Fields(value(6)), Mount: value(7)})
		case "call":
			f.Calls = append(f.Calls, Call{To: v, Said: value(2)})
		case "self":
			f.Self = v
		case "tmp":
			f.Tmp = v
		case "unpacks":
			f.Unpacks = v
		case "room":
			f.Full = append(f.Full, Full{Dir: v, Said: value(2)})
		default:
			f.add(words, value)
		}
	}
	return f, ok
}

// add reads one of the answers that not each host has.
func (f *Facts) add(words []string, value func(int) string) {
	switch v := value(1); words[0] {
	case "denied":
		f.Denied, f.Mount = v, value(2)
	case "numbers":
		f.Numbers = v
	case "parameter":
		f.addParameter(v, value(2), strings.Join(words[min(3, len(words)):], "\t"))
	case "noexec":
		f.Noexec = append(f.Noexec, v)
		if m := value(2); m != "" && !slices.Contains(f.Mounts, m) {
			f.Mounts = append(f.Mounts, m)
		}
	}
}

// parts returns the names of what Parts counts.
func parts() []string {
	return []string{"package", "numa", "l3cache", "l2cache", "l1cache", "core", "hwthread"}
}

// parts reads pairs of a part and a number, where the shell may use all processors of its host.
func (f Facts) parts(text string) map[string]int {
	out := map[string]int{}
	words := strings.Fields(text)
	for i := 0; i+1 < len(words); i += 2 {
		out[words[i]], _ = strconv.Atoi(words[i+1])
	}
	if out["hwthread"] != f.Cores {
		return nil
	}
	return out
}

// family returns the MPI whose libraries are named. libmpi.so.12 is MPICH's name and Intel's, and that of an old
// Open MPI, which has libopen-pal besides.
func family(libraries string) string {
	switch {
	case strings.Contains(libraries, "libopen-pal"), strings.Contains(libraries, "libmpi.so.40"):
		return "openmpi"
	case strings.Contains(libraries, "libmpich"), strings.Contains(libraries, "libmpi.so.12"):
		return "mpich"
	}
	return ""
}

func clock(text string) time.Time {
	seconds, fraction, _ := strings.Cut(text, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	n, _ := strconv.ParseInt(fraction, 10, 64) // %N of another date is no number
	return time.Unix(s, n)
}

// cut is how many bytes of an answer's words a host writes: "%.2000s" of the script.
const cut = 2000

// addresses reads pairs of an interface and an address with its length; nil: the host has more than it writes.
func addresses(text string) (out []Address) {
	if len(text) >= cut-1 { // it may have ended with a space
		return nil
	}
	words := strings.Fields(text)
	for i := 0; i+1 < len(words); i += 2 {
		p, err := netip.ParsePrefix(words[i+1])
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			out = append(out, Address{Interface: words[i], Prefix: p})
		}
	}
	return out
}

// Heard is what the head answers to a host that calls.
const Heard = "launch hears you"

// Allow reports whether the line lets the daemons use an address.
func (i Interfaces) Allow(a Address) bool {
	matches := func(list []string) bool {
		for _, want := range list {
			if want == a.Interface {
				return true
			}
			if p, err := netip.ParsePrefix(want); err == nil && p.Contains(a.Prefix.Addr()) {
				return true
			}
		}
		return false
	}
	if len(i.Include) > 0 {
		return matches(i.Include)
	}
	return !matches(i.Exclude)
}

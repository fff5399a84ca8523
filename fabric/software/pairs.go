package software

import (
	"debug/elf"
	"regexp"
	"slices"
	"strconv"
)

// netSymbol is a version of NCCL's network interface that a plugin exports.
var netSymbol = regexp.MustCompile(`^ncclNetPlugin_v(\d{1,3})$`)

// maxSymbols limits the dynamic symbols of a plugin that are read; aws-ofi-nccl has a few hundred.
const maxSymbols = 1 << 16

// netVersions returns the versions of NCCL's network interface that a plugin exports, in order; nil: none was seen.
func (f files) netVersions(name string) (out []int) {
	e, done, ok := f.elf(name)
	if !ok {
		return nil
	}
	defer done()
	if s := e.SectionByType(elf.SHT_DYNSYM); s == nil || s.Size > maxSymbols*elf.Sym64Size {
		return nil
	}
	symbols, err := e.DynamicSymbols()
	if err != nil {
		return nil
	}
	for _, s := range symbols {
		if m := netSymbol.FindStringSubmatch(s.Name); m != nil && s.Section != elf.SHN_UNDEF {
			n, _ := strconv.Atoi(m[1])
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lacks returns the symbol versions of a library that an object needs and that the file of the library does not define:
// the dynamic loader refuses the object. A weak need is none, and a library without versions satisfies all.
func (f files) lacks(object, soname, library string) (out []string) {
	o, closeO, ok := f.elf(object)
	if !ok {
		return nil
	}
	defer closeO()
	l, closeL, ok := f.elf(library)
	if !ok {
		return nil
	}
	defer closeL()
	needs, err := o.DynamicVersionNeeds()
	defined, failed := l.DynamicVersions()
	if err != nil || failed != nil || len(defined) == 0 {
		return nil
	}
	for _, n := range needs {
		if n.Name != soname {
			continue
		}
		for _, v := range n.Needs {
			known := slices.ContainsFunc(defined, func(d elf.DynamicVersion) bool { return d.Name == v.Dep })
			if !known && v.Flags&elf.VER_FLG_WEAK == 0 {
				out = append(out, v.Dep)
			}
		}
	}
	return out
}

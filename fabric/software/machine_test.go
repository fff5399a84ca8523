package software

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"strings"
	"testing/fstest"
)

// tree is a machine's files: "-> target" is a symbolic link, and a name that ends in
// '*' is executable.
func tree(entries ...string) fstest.MapFS {
	root := fstest.MapFS{}
	for i := 0; i+1 < len(entries); i += 2 {
		name, text := strings.TrimPrefix(entries[i], "/"), entries[i+1]
		f := &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			f = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		}
		if name, ok := strings.CutSuffix(name, "*"); ok {
			f.Mode |= 0o111
			root[name] = f
			continue
		}
		root[name] = f
	}
	return root
}

// library is the contents of a test's shared library.
type library struct {
	needed         []string
	rpath, runpath string
	text           string // its constants
	buildID        string
	fatbin         string // code for a GPU
}

// elf64 returns a shared library that debug/elf reads: sections and nothing else.
func elf64(l library) string {
	dynstr := []byte{0}
	at := func(s string) uint64 {
		n := len(dynstr)
		dynstr = append(append(dynstr, s...), 0)
		return uint64(n)
	}
	var dynamic []elf.Dyn64
	for _, n := range l.needed {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: at(n)})
	}
	if l.rpath != "" {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_RPATH), Val: at(l.rpath)})
	}
	if l.runpath != "" {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_RUNPATH), Val: at(l.runpath)})
	}
	note := append([]byte{4, 0, 0, 0, byte(len(l.buildID)), 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0}, l.buildID...)
	sections := []struct {
		name string
		kind elf.SectionType
		link uint32
		data []byte
	}{
		{"", elf.SHT_NULL, 0, nil},
		{".dynstr", elf.SHT_STRTAB, 0, dynstr},
		{".dynamic", elf.SHT_DYNAMIC, 1, packed(append(dynamic, elf.Dyn64{}))},
		{".rodata", elf.SHT_PROGBITS, 0, []byte(l.text)},
		{".nv_fatbin", elf.SHT_PROGBITS, 0, []byte(l.fatbin)},
		{".note.gnu.build-id", elf.SHT_NOTE, 0, note},
		{".shstrtab", elf.SHT_STRTAB, 0, nil},
	}
	names := []byte{0}
	var body []byte
	var headers []elf.Section64
	const size = 64 // of the file's header, and of a section's
	for i := range sections {
		s := &sections[i]
		h := elf.Section64{Name: uint32(len(names)), Type: uint32(s.kind), Link: s.link, Off: uint64(size + len(body)),
			Flags: uint64(elf.SHF_ALLOC)}
		names = append(append(names, s.name...), 0)
		if s.name == ".shstrtab" {
			s.data = names
		}
		h.Size = uint64(len(s.data))
		body = append(body, s.data...)
		headers = append(headers, h)
	}
	head := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: size,
		Shentsize: size,
		Shoff:     uint64(size + len(body)), Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1),
	}
	return string(packed(head)) + string(body) + string(packed(headers))
}

func packed(v any) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// cache is an ld.so.cache with pairs of name and file, in the 64-bit ABI.
func cache(pairs ...string) string {
	const abi = 0x0303 // x86-64, libc6
	strs := cacheHeader + cacheEntry*len(pairs)/2
	head := append([]byte(cacheMagic), make([]byte, cacheHeader-len(cacheMagic))...)
	binary.LittleEndian.PutUint32(head[len(cacheMagic):], uint32(len(pairs)/2))
	var text []byte
	for i := 0; i < len(pairs); i += 2 {
		name := strs + len(text)
		text = append(append(text, pairs[i]...), 0)
		file := strs + len(text)
		text = append(append(text, pairs[i+1]...), 0)
		head = append(head, packed([]uint32{abi, uint32(name), uint32(file), 0, 0, 0})...)
	}
	return string(head) + string(text)
}

// What most machines of the tests have in common.
const (
	versionPy = "from typing import Optional\n__all__ = ['__version__', 'cuda']\n__version__ = '2.9.0+cu128'\ndebug = " +
		"False\n" +
		"cuda: Optional[str] = '12.8'\ngit_version = 'd0f2'\nhip: Optional[str] = None\n"
	cpuPy = "__version__ = '2.9.0+cpu'\ncuda = None\nhip = None\n"
	cfg   = "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.12.3\n"
	site  = "/env/lib/python3.12/site-packages/"
)

func nccl(version string) string {
	return elf64(library{text: "\x00NCCL version " + version + "+cuda12.8\x00"})
}

// venv is a virtual environment in /env with a torch as its wheels are.
func venv(more ...string) fstest.MapFS {
	return tree(append([]string{
		"/usr/bin/python3.12*", "\x7fELF", "/usr/bin/python3", "-> python3.12",
		"/env/bin/python", "-> python3", "/env/bin/python3", "-> /usr/bin/python3",
		"/env/bin/torchrun*", "#!/env/bin/python3\nimport sys\n", "/env/pyvenv.cfg", cfg,
		site + "torch/version.py", versionPy,
		site + "torch/lib/libtorch_cuda.so", elf64(library{needed: []string{"libc10.so", "libnccl.so.2"},
			rpath: "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"}),
		site + "nvidia/nccl/lib/libnccl.so.2", nccl("2.27.5"),
	}, more...)...)
}

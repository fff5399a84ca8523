package scene

import (
	"encoding/binary"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// span is where the code of a file is mapped.
type span struct {
	from, to uint64
	file     string // its base name
}

// code returns where code is mapped, from /proc/PID/maps.
func code(maps string) (out []span) {
	for line := range strings.Lines(maps) {
		at := strings.IndexByte(line, '/')
		f := strings.Fields(line)
		if at < 0 || len(f) < 6 || len(f[1]) < 3 || f[1][2] != 'x' {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		a, err := strconv.ParseUint(from, 16, 64)
		b, err2 := strconv.ParseUint(to, 16, 64)
		if err == nil && err2 == nil {
			out = append(out, span{a, b, clean(path.Base(strings.TrimSpace(line[at:])), maxValue)})
		}
	}
	return out
}

// ofLibc are beginnings of files, of C and C++, that make system calls for others.
var ofLibc = []string{"libc.so", "libc-", "libpthread", "ld-", "libstdc++", "libgcc"}

// stackWords of a thread's stack are searched for the caller of libc: its functions that wait have small frames.
const stackWords = 64

// callerOf returns the file whose code has made a system call, or has called libc for it; "": it is not known, or it
// is Python itself. text is /proc/PID/syscall, whose last fields are the stack and the instruction pointer.
func callerOf(pid int, text string) string {
	f := strings.Fields(text)
	if len(f) != 9 {
		return ""
	}
	sp, err := strconv.ParseUint(strings.TrimPrefix(f[7], "0x"), 16, 64)
	pc, err2 := strconv.ParseUint(strings.TrimPrefix(f[8], "0x"), 16, 64)
	maps, err3 := readFile(procPath(pid, "maps"))
	mem, err4 := openFile(procPath(pid, "mem"), unix.O_RDONLY)
	if err4 == nil {
		defer unix.Close(mem)
	}
	if err != nil || err2 != nil || err3 != nil || err4 != nil {
		return ""
	}
	stack := make([]byte, 8*stackWords)
	n, _ := unix.Pread(mem, stack, int64(sp))
	words := []uint64{pc}
	for b := stack[:max(n, 0)&^7]; len(b) > 0; b = b[8:] {
		words = append(words, binary.NativeEndian.Uint64(b))
	}
	return firstCaller(code(string(maps)), words)
}

// firstCaller returns the first file of code that some addresses point to, and that is not libc.
func firstCaller(all []span, words []uint64) string {
	for _, w := range words {
		i := slices.IndexFunc(all, func(s span) bool { return s.from <= w && w < s.to })
		if i < 0 || slices.ContainsFunc(ofLibc, func(b string) bool { return strings.HasPrefix(all[i].file, b) }) {
			continue
		}
		if strings.HasPrefix(all[i].file, "python") || strings.HasPrefix(all[i].file, "libpython") {
			return ""
		}
		return all[i].file
	}
	return ""
}

package software

import (
	"bytes"
	"encoding/binary"
)

// maxCache limits what is read of ld.so.cache; a full desktop has 200 KiB.
const maxCache = 8 << 20

// The format of ld.so.cache (glibc, sysdeps/generic/dl-cache.h): a header of 48 bytes,
// entries of 24, then the strings, whose offsets count from the start of the header.
// Before glibc 2.32, an older format precedes it.
const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// parseCache reads ld.so.cache: the file of each name; the first entry of a name wins.
// It skips entries for 32-bit programs.
func parseCache(b []byte) map[string]string {
	out := map[string]string{}
	at := bytes.Index(b, []byte(cacheMagic))
	if at < 0 || len(b)-at < cacheHeader {
		return out
	}
	b = b[at:]
	n := int(binary.LittleEndian.Uint32(b[len(cacheMagic):]))
	for i := range min(n, (len(b)-cacheHeader)/cacheEntry) {
		e := b[cacheHeader+i*cacheEntry:]
		flags := binary.LittleEndian.Uint32(e)
		if flags&0xff00 == 0 { // FLAG_REQUIRED_MASK: 0 is the 32-bit ABI of i386
			continue
		}
		name, file := cString(b, binary.LittleEndian.Uint32(e[4:])), cString(b, binary.LittleEndian.Uint32(e[8:]))
		if _, seen := out[name]; !seen && name != "" && file != "" {
			out[name] = file
		}
	}
	return out
}

// cString returns the text at an offset, up to its NUL.
func cString(b []byte, at uint32) string {
	if int64(at) >= int64(len(b)) {
		return ""
	}
	b = b[at:]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return ""
	}
	return string(b[:end])
}

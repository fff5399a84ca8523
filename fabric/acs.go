package fabric

import (
	"encoding/binary"
	"io"
	"io/fs"
	"path"
	"sync"
)

// Extended capabilities of a PCIe function, and Access Control Services (PCI Express
// Base Specification, 7.6.3 and 7.7.11).
const (
	extendedStart = 0x100
	acsCapability = 0x000d
	acsControl    = 6    // offset of its control register
	acsRedirects  = 0x0c // P2P request redirect, P2P completion redirect
	extendedMax   = 48   // more capabilities than any sane list has
)

// redirects caches which bridges send traffic between two of their devices up to the
// root instead of across. Each bridge is read once.
type redirects struct {
	sys    fs.FS
	mu     sync.Mutex
	states map[string]string
}

// on returns "on" if a bridge of a path redirects, "off" if all were read and none
// does, "" if one could not be read. An unprivileged user reads only 64 bytes of each
// function, and a VM sees no bridges of its host.
func (r *redirects) on(above []string) string {
	state := ""
	for i, bridge := range above {
		if i == 0 { // the root is not a function
			continue
		}
		switch r.bridge(bridge) {
		case "on":
			return "on"
		case "":
			return ""
		}
		state = "off"
	}
	return state
}

func (r *redirects) bridge(addr string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, asked := r.states[addr]
	if !asked {
		if r.states == nil {
			r.states = map[string]string{}
		}
		state = ReadACS(r.sys, path.Join(pciDevices, addr, "config"))
		r.states[addr] = state
	}
	return state
}

// ReadACS reads from its config file whether a bridge redirects: "on", "off", or ""
// where that could not be read. It walks the list of extended capabilities and reads
// nothing else, since each read of four bytes goes to the device.
func ReadACS(sys fs.FS, name string) string {
	f, err := sys.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	config, ok := f.(io.ReaderAt)
	if !ok {
		return ""
	}
	at := int64(extendedStart)
	for range extendedMax {
		var b [4]byte
		if n, _ := config.ReadAt(b[:], at); n < len(b) {
			return ""
		}
		header := binary.LittleEndian.Uint32(b[:])
		if header&0xffff == acsCapability {
			if n, _ := config.ReadAt(b[:2], at+acsControl); n < 2 {
				return ""
			}
			if binary.LittleEndian.Uint16(b[:])&acsRedirects != 0 {
				return "on"
			}
			return "off"
		}
		if at = int64(header >> 20 &^ 3); at < extendedStart || header == ^uint32(0) {
			return "off"
		}
	}
	return "off"
}

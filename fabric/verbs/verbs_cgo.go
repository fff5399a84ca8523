//go:build linux && cgo && !noverbs

package verbs

/*
#cgo CFLAGS: -Wall -Werror=implicit-function-declaration
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include <string.h>
#include "shim.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"syscall"
	"unsafe"
)

// library is libibverbs, which remains loaded: its providers do not survive a dlclose.
type library struct{ c *C.struct_lv_lib }

func load() (library, error) {
	l := library{(*C.struct_lv_lib)(C.calloc(1, C.sizeof_struct_lv_lib))}
	var missing C.int
	if why := C.lv_load(l.c, &missing); why != nil {
		defer l.free()
		if missing != 0 {
			return library{}, fmt.Errorf("%w: %s", ErrNoLibrary, C.GoString(why))
		}
		return library{}, errors.New(C.GoString(why))
	}
	return l, nil
}

func (l library) free() { C.free(unsafe.Pointer(l.c)) }

// each calls f with the number and name of every device until f returns false.
func (l library) each(f func(list **C.struct_lv_device, i C.int, name string) bool) error {
	var count, errno C.int
	list := C.lv_list(l.c, &count, &errno)
	if list == nil {
		if err := syscall.Errno(errno); err != syscall.ENOSYS {
			return fmt.Errorf("list RDMA devices: %w", err)
		}
		return ErrNoStack
	}
	defer C.lv_free(l.c, list)
	for i := range count {
		if !f(list, i, C.GoString(C.lv_name(l.c, list, i))) {
			return nil
		}
	}
	return nil
}

// Devices lists the RDMA devices of this process, opens each, and reads its properties and its ports.
// It blocks for as long as a driver does. The error is ErrNoLibrary, ErrNoStack or libibverbs' own.
func Devices() ([]Device, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	defer l.free()
	var devices []Device
	err = l.each(func(list **C.struct_lv_device, i C.int, name string) bool {
		devices = append(devices, l.ask(list, i, name))
		return true
	})
	if err == nil && devices == nil {
		devices = []Device{}
	}
	return devices, err
}

// notListed returns why a device is not in the list. The library omits devices without their file.
func notListed(name string) *Error {
	if nodes, _ := filepath.Glob("/dev/infiniband/uverbs*"); len(nodes) == 0 {
		return &Error{Cause: NoNode, Step: stepOpen,
			Text: fmt.Sprintf("libibverbs does not list %q: there is no /dev/infiniband/uverbs*, so ib_uverbs is not loaded, "+
				"or this container lacks the device", name)}
	}
	return &Error{Cause: NotListed, Step: stepOpen,
		Text: fmt.Sprintf("libibverbs does not list %q: its file below /dev/infiniband or its vendor's library is "+
			"missing, or it is in another RDMA namespace", name)}
}

func (l library) ask(list **C.struct_lv_device, i C.int, name string) Device {
	d := Device{Name: name}
	var errno C.int
	context := C.lv_open(l.c, list, i, &errno)
	if context == nil {
		e := subject{device: name}.of(stepOpen, syscall.Errno(errno))
		d.Err, d.Cause = e.Text, e.Cause
		return d
	}
	defer C.lv_close(l.c, context)
	d.Opens = true
	if C.lv_can_query(l.c) != 0 {
		l.describe(context, &d)
	}
	return d
}

func (l library) describe(context *C.struct_lv_context, d *Device) {
	var a C.struct_lv_device_attr
	if errno := C.lv_query_device(l.c, context, &a); errno != 0 {
		d.Unknown = "query device: " + syscall.Errno(errno).Error()
		return
	}
	d.Firmware = C.GoStringN(&a.fw_ver[0], C.int(C.strnlen(&a.fw_ver[0], C.size_t(len(a.fw_ver)))))
	d.GUID = guidOf(*(*[8]byte)(unsafe.Pointer(&a.node_guid)))
	d.MaxQP, d.MaxWR, d.MaxCQE, d.MaxMR = int(a.max_qp), int(a.max_qp_wr), int(a.max_cqe), uint64(a.max_mr_size)
	for n := 1; n <= min(int(a.phys_port_cnt), maxPorts); n++ {
		p, errno := l.port(context, n)
		if errno != 0 {
			d.Unknown = fmt.Sprintf("query port %d: %v", n, errno)
			continue
		}
		d.Ports = append(d.Ports, p)
	}
}

func (l library) port(context *C.struct_lv_context, n int) (Port, syscall.Errno) {
	var a C.struct_lv_port_attr
	if errno := C.lv_query_port(l.c, context, C.int(n), &a); errno != 0 {
		return Port{}, syscall.Errno(errno)
	}
	p := Port{
		Num: n, State: int(a.state), Phys: int(a.phys_state), LID: int(a.lid), SMLID: int(a.sm_lid),
		MaxMsg: int(a.max_msg_sz), ActiveMTU: mtuBytes(int(a.active_mtu)), MaxMTU: mtuBytes(int(a.max_mtu)),
		GIDSlots: int(a.gid_tbl_len), PKeySlots: int(a.pkey_tbl_len),
	}
	switch a.link_layer {
	case 1:
		p.Link = linkIB
	case C.LV_LINK_ETHERNET:
		p.Link = linkEthernet
	}
	p.Rate, p.Lanes = rateOf(int(a.active_width), cmp.Or(int(a.active_speed_ex), int(a.active_speed)))
	return p, 0
}

// pkey returns a partition key as it is sent; false if it is unset.
func (l library) pkey(context *C.struct_lv_context, port, index int) (uint16, bool) {
	var key C.uint16_t
	if C.lv_query_pkey(l.c, context, C.int(port), C.int(index), &key) != 0 {
		return 0, false
	}
	b := (*[2]byte)(unsafe.Pointer(&key))
	k := uint16(b[0])<<8 | uint16(b[1])
	return k, k&0x7fff != 0
}

// gids returns the entries of a port's table that are set.
func (l library) gids(context *C.struct_lv_context, p Port) (out []gidEntry) {
	const most = 2000 // of all ports of a device; the kernel accepts 64 KiB at most
	entries := (*[most]C.struct_lv_gid_entry)(C.calloc(most, C.sizeof_struct_lv_gid_entry))
	defer C.free(unsafe.Pointer(entries))
	n := int(C.lv_query_gids(l.c, context, &entries[0], most))
	if n < 0 { // before rdma-core 32 entries are read one by one, and have no types
		return l.oldGIDs(context, p)
	}
	for _, e := range entries[:n] {
		addr, ok := gidOf(*(*[16]byte)(unsafe.Pointer(&e.gid)))
		if int(e.port) == p.Num && ok {
			out = append(out, gidEntry{Index: int(e.index), Addr: addr, Type: gidType(uint32(e._type))})
		}
	}
	return out
}

func (l library) oldGIDs(context *C.struct_lv_context, p Port) []gidEntry {
	var out []gidEntry
	for i := 0; i < min(p.GIDSlots, 256); i++ {
		var raw C.union_lv_gid
		if C.lv_query_gid(l.c, context, C.int(p.Num), C.int(i), &raw) != 0 {
			continue
		}
		if addr, ok := gidOf(*(*[16]byte)(unsafe.Pointer(&raw))); ok {
			out = append(out, gidEntry{Index: i, Addr: addr})
		}
	}
	return out
}

// raw returns a GID in the form of libibverbs.
func raw(a netip.Addr) (out C.union_lv_gid) {
	*(*[16]byte)(unsafe.Pointer(&out)) = a.As16()
	return out
}

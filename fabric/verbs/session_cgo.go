//go:build linux && cgo && !noverbs

package verbs

/*
#include <stdlib.h>
#include "session.h"
*/
import "C"

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"
)

// stall is longer than a connection's longest chain of retries. stallProbe is for a probe.
const (
	stall      = 4 * time.Second
	stallProbe = 2500 * time.Millisecond
)

// session is an open port with the memory and connections of one test, for one goroutine and watch.
type session struct {
	lib  library
	c    *C.struct_lv_session
	port Port
	end  End

	mu sync.Mutex // held while c is freed, so that watch never stops a freed session
}

// open opens a test's port and checks what can be known without sending.
func open(t Test) (*session, *Error) {
	l, err := load()
	if err != nil {
		return nil, ofLibrary(err)
	}
	if C.lv_can_talk(l.c) == 0 {
		l.free()
		return nil, &Error{Cause: NoLibrary, Step: "load libibverbs", Text: "libibverbs.so.1 is too old: it lacks functions"}
	}
	s := &session{lib: l, c: (*C.struct_lv_session)(C.calloc(1, C.sizeof_struct_lv_session))}
	s.c.lib = l.c
	found := false
	var errno C.int
	err = l.each(func(list **C.struct_lv_device, i C.int, name string) bool {
		if found = name == t.Device; found {
			s.c.context = C.lv_open(l.c, list, i, &errno)
		}
		return !found
	})
	var e *Error
	switch {
	case err != nil:
		e = ofLibrary(err)
	case !found:
		e = notListed(t.Device)
	case s.c.context == nil:
		e = subject{device: t.Device}.of(stepOpen, syscall.Errno(errno))
	default:
		e = s.look(t)
	}
	if e != nil {
		s.close()
		return nil, e
	}
	return s, nil
}

// look reads the port, and chooses how the connection is addressed.
func (s *session) look(t Test) *Error {
	var errno syscall.Errno
	if s.port, errno = s.lib.port(s.c.context, t.Port); errno != 0 {
		e := subject{device: t.Device}.of(stepQuery, errno)
		if errno == syscall.EINVAL {
			e.Cause, e.Text = Wrong, fmt.Sprintf("%s has no port %d", t.Device, t.Port)
		}
		return e
	}
	p, gids := s.port, s.lib.gids(s.c.context, s.port)
	s.end = End{Device: t.Device, Port: t.Port, Link: p.Link, State: p.State, MTU: p.ActiveMTU, Forced: t.MTU,
		Rate: p.Rate, LID: p.LID, Index: t.GID}
	if t.GPU != nil {
		s.end.GPU = t.GPU.PCI
	}
	fail := func(c Cause, format string, args ...any) *Error {
		return &Error{Cause: c, Step: stepQuery, Text: fmt.Sprintf(format, args...)}
	}
	if !p.Active() {
		return fail(PortDown, "%s port %d is %s", t.Device, t.Port, stateWord(p.State))
	}
	if p.Link == linkIB && (p.LID == 0 || p.LID == 0xffff) {
		return fail(NoLID, "%s port %d has no LID: no subnet manager has configured it", t.Device, t.Port)
	}
	if t.MTU > p.MaxMTU {
		return fail(MTUDiffers, "packets of %d bytes: %s port %d sends %d at most", t.MTU, t.Device, t.Port, p.MaxMTU)
	}
	if p.Link == linkEthernet || t.GID >= 0 {
		i := slices.IndexFunc(gids, func(g gidEntry) bool { return g.Index == t.GID })
		g, ok := gidEntry{}, i >= 0
		if ok {
			g = gids[i]
		} else if t.GID < 0 {
			g, ok = choose(gids)
		}
		switch {
		case !ok && t.GID < 0:
			return fail(NoGID, "%s port %d has no GID: its interface has no address", t.Device, t.Port)
		case !ok:
			return fail(NoGID, "%s port %d has no GID at index %d; set are %s", t.Device, t.Port, t.GID, gidList(gids))
		}
		s.end.Index, s.end.GID, s.end.GIDType = g.Index, g.Addr, g.Type
	}
	key, ok := s.lib.pkey(s.c.context, t.Port, t.PKey)
	if !ok {
		return fail(NoPKey, "%s port %d has no partition key at index %d", t.Device, t.Port, t.PKey)
	}
	s.end.PKey = fmt.Sprintf("0x%04x", key)
	return nil
}

// gidList lists the entries of a table for a user to choose from.
func gidList(gids []gidEntry) string {
	if len(gids) == 0 {
		return "none"
	}
	out := ""
	for i, g := range gids {
		if i == 4 {
			return out + fmt.Sprintf(" and %d more", len(gids)-i)
		}
		out += fmt.Sprintf("%s%d (%s %s)", map[bool]string{true: ", "}[i > 0], g.Index, cmp.Or(g.Type, "GID"), g.Addr)
	}
	return out
}

// prepare creates the connections, not yet connected: one for probes, and t.QPs for the load.
func (s *session) prepare(t Test, qps int) *Error {
	stride := t.stride()
	about := subject{device: t.Device, port: t.Port, bytes: uint64(stride) * uint64(qps+1),
		memlock: uint64(C.lv_memlock()), gid: s.end.way()}
	s.c.qps, s.c.depth = C.int(qps), C.int(s.depth(t.Depth, qps))
	step := func(name string, errno C.int) *Error {
		if errno == 0 {
			return nil
		}
		return about.of(name, syscall.Errno(errno))
	}
	if e := step(stepPD, C.lv_pd_make(s.c)); e != nil {
		return e
	}
	if t.GPU != nil {
		if e := s.useGPU(*t.GPU, stride); e != nil {
			return e
		}
	} else {
		if errno := C.lv_memory_make(s.c, C.size_t(stride)); errno != 0 {
			return &Error{Cause: Resources, Step: "allocate memory", Errno: int(errno),
				Text: fmt.Sprintf("allocate %s: %v", size(about.bytes), syscall.Errno(errno))}
		}
		if e := step(stepRegister, C.lv_memory_share(s.c)); e != nil {
			return e
		}
	}
	if e := step(stepCQ, C.lv_cq_make(s.c)); e != nil {
		return e
	}
	for i := range qps {
		if e := step(stepQP, C.lv_qp_make(s.c)); e != nil {
			return e
		}
		if e := step(stepInit, C.lv_qp_init(s.c, C.int(i), C.int(t.Port), C.int(t.PKey))); e != nil {
			return e
		}
	}
	return nil
}

// depth returns how many requests each connection may have in flight: one queue is for all.
func (s *session) depth(asked, qps int) int {
	var a C.struct_lv_device_attr
	if C.lv_query_device(s.lib.c, s.c.context, &a) != 0 || a.max_qp_wr < 1 || int(a.max_cqe) < 2*qps {
		return asked // creating the queues gives a better error
	}
	return min(asked, int(a.max_qp_wr), int(a.max_cqe)/qps-1)
}

// address returns how the other end accesses this end's memory and connections.
func (s *session) address(psn uint32) message {
	end := s.end
	m := message{End: &end, Addr: uint64(C.lv_receive(s.c, 0)), RKey: uint32(s.c.mr.rkey), PSN: psn}
	for i := range s.c.qps {
		m.QPNs = append(m.QPNs, uint32(s.c.qp[i].qp_num))
	}
	return m
}

// connect connects each connection to the other end's connection of the same number.
func (s *session) connect(t Test, mtu int, psn uint32, remote End, m message) *Error {
	if len(m.QPNs) != int(s.c.qps) {
		return &Error{Cause: Wrong, Step: stepConnect, Text: fmt.Sprintf("the other end has %d queue pairs, this one %d",
			len(m.QPNs), s.c.qps)}
	}
	about := subject{device: t.Device, port: t.Port, memlock: uint64(C.lv_memlock()), gid: s.end.way()}
	s.c.peer_addr, s.c.peer_rkey = C.uint64_t(m.Addr), C.uint32_t(m.RKey)
	for i, qpn := range m.QPNs {
		way := C.struct_lv_way{
			port: C.int(t.Port), mtu: C.int(mtuNumber(mtu)), lid: C.uint16_t(remote.LID), qpn: C.uint32_t(qpn),
			psn: C.uint32_t(m.PSN),
		}
		if s.end.Index >= 0 {
			way.global, way.gid_index, way.gid = 1, C.int(s.end.Index), raw(remote.GID)
		}
		if errno := C.lv_qp_meet(s.c, C.int(i), &way); errno != 0 {
			return about.of(stepConnect, syscall.Errno(errno))
		}
		if errno := C.lv_qp_start(s.c, C.int(i), C.uint32_t(psn)); errno != 0 {
			return about.of(stepStart, syscall.Errno(errno))
		}
	}
	return nil
}

// state reads the port again: whether the device answers, and the port's state.
func (s *session) state() (End, bool) {
	p, errno := s.lib.port(s.c.context, s.end.Port)
	if errno != 0 {
		return s.end, false
	}
	s.end.State, s.end.MTU, s.end.Rate = p.State, p.ActiveMTU, p.Rate
	return s.end, true
}

// watch stops the test when ctx ends.
func (s *session) watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.c != nil {
			C.lv_stop(s.c)
		}
	})
}

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	C.lv_end_session(s.c)
	s.lib.free()
	s.c = nil
}

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// The part of the TCPStore protocol that faketorchrun speaks, as torch 2.2 and
// later number it (torch/csrc/distributed/c10d/TCPStoreBackend.hpp).
const (
	opValidate   = 0
	opAdd        = 4
	opWait       = 6
	opGetNumKeys = 7

	magic  = 0x3C85F7CE
	maxKey = 1 << 10 // bytes; real keys have about a dozen
	retry  = 50 * time.Millisecond
)

// store counts keys.
type store struct {
	ln net.Listener

	mu      sync.Mutex
	keys    map[string]int64
	changed chan struct{} // closed and replaced by every add
}

// serve listens on every address, as torch does, whatever the host in addr.
func serve(addr string) (*store, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return nil, err
	}
	s := &store{ln: ln, keys: map[string]int64{}, changed: make(chan struct{})}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); s.talk(c) }()
		}
	}()
	return s, nil
}

// talk answers one connection until it ends or sends an unknown request.
func (s *store) talk(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		op, err := r.ReadByte()
		if err != nil {
			return
		}
		var reply any
		switch op {
		case opValidate:
			var m uint32
			if binary.Read(r, binary.LittleEndian, &m) != nil || m != magic {
				return
			}
			continue
		case opGetNumKeys:
			reply = s.count("")
		case opAdd:
			key, err := readKey(r)
			var by int64
			if err != nil || binary.Read(r, binary.LittleEndian, &by) != nil {
				return
			}
			reply = s.add(key, by)
		case opWait:
			var n uint64
			if binary.Read(r, binary.LittleEndian, &n) != nil || n != 1 {
				return
			}
			key, err := readKey(r)
			if err != nil {
				return
			}
			s.waitFor(context.Background(), key, 1)
			reply = uint8(0)
		default:
			return
		}
		if binary.Write(c, binary.LittleEndian, reply) != nil {
			return
		}
	}
}

func (s *store) add(key string, by int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] += by
	close(s.changed)
	s.changed = make(chan struct{})
	return s.keys[key]
}

// count returns the number of keys that begin with prefix.
func (s *store) count(prefix string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for k := range s.keys {
		if strings.HasPrefix(k, prefix) {
			n++
		}
	}
	return n
}

// waitFor waits until n keys begin with prefix.
func (s *store) waitFor(ctx context.Context, prefix string, n int) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if s.count(prefix) >= int64(n) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// dial connects to a store that may not listen yet.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	tick := time.NewTicker(retry)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return c, binary.Write(c, binary.LittleEndian, struct {
				Op    uint8
				Magic uint32
			}{opValidate, magic})
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

func add(c net.Conn, key string) (int64, error) {
	msg := binary.LittleEndian.AppendUint64(appendKey([]byte{opAdd}, key), 1)
	if _, err := c.Write(msg); err != nil {
		return 0, fmt.Errorf("add %q: %w", key, err)
	}
	var v int64
	if err := binary.Read(c, binary.LittleEndian, &v); err != nil {
		return 0, fmt.Errorf("add %q: %w", key, err)
	}
	return v, nil
}

func wait(c net.Conn, key string) error {
	msg := appendKey(binary.LittleEndian.AppendUint64([]byte{opWait}, 1), key)
	if _, err := c.Write(msg); err != nil {
		return fmt.Errorf("wait for %q: %w", key, err)
	}
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return fmt.Errorf("wait for %q: %w", key, err)
	}
	return nil
}

func appendKey(b []byte, key string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(key))), key...)
}

func readKey(r io.Reader) (string, error) {
	var n uint64
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return "", err
	}
	if n > maxKey {
		return "", fmt.Errorf("key of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return string(b), err
}

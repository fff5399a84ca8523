package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The part of the TCPStore protocol that faketorchrun speaks, as torch 2.2 and
// later number it (torch/csrc/distributed/c10d/TCPStoreBackend.hpp).
const (
	opValidate   = 0
	opAdd        = 4
	opGetNumKeys = 7

	magic  = 0x3C85F7CE
	maxKey = 1 << 10 // bytes; real keys have about a dozen
	retry  = 50 * time.Millisecond
)

// store counts keys.
type store struct {
	ln   net.Listener
	left sync.WaitGroup // the nodes whose connection has not ended

	mu   sync.Mutex
	keys map[string]int64
}

// serve listens on every address, as torch does, whatever the host in addr.
func serve(addr string, nodes int) (*store, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return nil, err
	}
	s := &store{ln: ln, keys: map[string]int64{}}
	s.left.Add(nodes)
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
		var reply int64
		switch op {
		case opValidate:
			var m uint32
			if binary.Read(r, binary.LittleEndian, &m) != nil || m != magic {
				return
			}
			continue
		case opGetNumKeys:
			s.mu.Lock()
			reply = int64(len(s.keys))
			s.mu.Unlock()
		case opAdd:
			key, err := readKey(r)
			var by int64
			if err != nil || binary.Read(r, binary.LittleEndian, &by) != nil {
				return
			}
			s.mu.Lock()
			s.keys[key] += by
			reply = s.keys[key]
			s.mu.Unlock()
			if reply == 1 {
				defer s.left.Done()
			}
		default:
			return
		}
		if binary.Write(c, binary.LittleEndian, reply) != nil {
			return
		}
	}
}

// await waits until every node has joined and ended its connection.
func (s *store) await(ctx context.Context) {
	ended := make(chan struct{})
	go func() { s.left.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
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

// ask sends a request and returns the number that answers it.
func ask(c net.Conn, request []byte) (n int64, err error) {
	if _, err = c.Write(request); err == nil {
		err = binary.Read(c, binary.LittleEndian, &n)
	}
	return n, err
}

// addOne returns the request that adds 1 to a key.
func addOne(key string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{opAdd}, uint64(len(key)))
	return binary.LittleEndian.AppendUint64(append(b, key...), 1)
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

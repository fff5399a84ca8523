package start

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/mpirun"
)

// callListed makes the name by which the daemons call this host the listed one. One of the loopback is left out.
func (s *Start) callListed(local []bool) {
	i := slices.Index(local, true)
	if !s.Mpirun.CallListed || i < 0 {
		return
	}
	name := s.Mpirun.Hosts[i].Name
	if a, err := netip.ParseAddr(name); name != "localhost" && (err != nil || !a.IsLoopback()) {
		s.Mpirun.CallName = name
	}
}

// question returns what the hosts are asked, and listens where they call this one. stop ends that.
func (s *Start) question() (q mpirun.Ask, stop func(), err error) {
	l, err := listenAs(s.Mpirun.Ports)
	if err != nil {
		return q, nil, exit.Errorf(exit.Unfit, "no port of %d-%d is free here, where mpirun listens: %v",
			s.Mpirun.Ports[0], s.Mpirun.Ports[1], err).Do("ss -ltnp   # shows who uses them")
	}
	q.Env, q.Token, q.Name = s.Job.Line.Environ(handoff.Environ()), rand.Text(), s.Mpirun.CallName
	q.Self, q.Hash = ownHash()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	for _, i := range s.Node.Interfaces {
		for _, p := range i.Addrs {
			addr := mpirun.Address{Interface: i.Name, Prefix: p}
			if a := p.Addr(); i.Up && !a.IsLoopback() && !a.IsLinkLocalUnicast() && s.Mpirun.Interfaces.Allow(addr) &&
				len(q.Calls) < callers {
				q.Calls = append(q.Calls, netip.AddrPortFrom(a, port))
			}
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answerCalls(l, q.Token)
	}()
	return q, func() { _ = l.Close(); <-ended }, nil
}

// listenAs listens at a port of mpirun's range, or at any.
func listenAs(ports [2]int) (l net.Listener, err error) {
	for port := ports[0]; port <= ports[1]; port++ {
		if l, err = net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// answerCalls answers the callers that know the token, until the listener is closed.
func answerCalls(l net.Listener, token string) {
	const patience = 3 * time.Second
	calls := make(chan struct{}, askAtOnce)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		calls <- struct{}{}
		go func() {
			defer func() { _ = c.Close(); <-calls }()
			_ = c.SetDeadline(time.Now().Add(patience))
			said, _ := bufio.NewReader(io.LimitReader(c, 256)).ReadString('\n')
			if strings.TrimSpace(said) == token {
				_, _ = io.WriteString(c, mpirun.Heard+"\n")
			}
		}()
	}
}

// ownHash returns the file of this program and its SHA-256.
func ownHash() (file, hash string) {
	file, err := os.Executable()
	if err != nil {
		return "", ""
	}
	f, err := os.Open(file)
	if err != nil {
		return file, ""
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return file, ""
	}
	return file, hex.EncodeToString(sum.Sum(nil))
}

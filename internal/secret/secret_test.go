package secret

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

const token = "0123456789abcdef"

func keys(t *testing.T, token string) *Keys {
	t.Helper()
	k, err := New(token)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// talk sends one byte from a client to a server and returns both sides' errors.
func talk(client, server *tls.Config) (clientErr, serverErr error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err, err
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		b, err := l.Accept()
		if err == nil {
			defer b.Close()
			c := tls.Server(b, server)
			if _, err = io.ReadFull(c, make([]byte, 1)); err == nil {
				_, err = c.Write([]byte{2})
			}
		}
		done <- err
	}()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err, err
	}
	c := tls.Client(a, client)
	_, clientErr = c.Write([]byte{1})
	if clientErr == nil {
		_, clientErr = io.ReadFull(c, make([]byte, 1))
	}
	a.Close()
	return clientErr, <-done
}

func TestTheTokenLetsAClientIn(t *testing.T) {
	if c, s := talk(keys(t, token).Client(), keys(t, token).Server()); c != nil || s != nil {
		t.Errorf("client %v, server %v", c, s)
	}
}

func TestAStrangerIsRefusedByEachSide(t *testing.T) {
	other := keys(t, strings.Repeat("x", MinLength))
	if c, _ := talk(other.Client(), keys(t, token).Server()); c == nil {
		t.Error("a client trusted a server of another token")
	}
	blind := other.Client()
	blind.VerifyConnection = nil
	if _, s := talk(blind, keys(t, token).Server()); s == nil {
		t.Error("a server let in a client of another token")
	}
	none := &tls.Config{InsecureSkipVerify: true}
	if _, s := talk(none, keys(t, token).Server()); s == nil {
		t.Error("a server let in a client without a token")
	}
}

func TestAllNodesMakeTheSameCertificate(t *testing.T) {
	if a, b := keys(t, token), keys(t, token); !bytes.Equal(a.pair.Certificate[0], b.pair.Certificate[0]) {
		t.Error("two certificates of one token differ")
	}
}

func TestAShortTokenIsRefused(t *testing.T) {
	if _, err := New(token[1:]); !errors.Is(err, ErrShort) {
		t.Errorf("got %v", err)
	}
}

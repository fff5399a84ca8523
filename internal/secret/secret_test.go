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

const token Token = "0123456789abcdef"

func keys(t *testing.T, token Token) *Keys {
	t.Helper()
	if err := token.Check(); err != nil {
		t.Fatal(err)
	}
	return token.Keys("j")
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
	other := keys(t, Token(strings.Repeat("x", MinLength)))
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
	if err := token[1:].Check(); !errors.Is(err, ErrShort) {
		t.Errorf("got %v", err)
	}
	if token[1:].Keys("j") != nil {
		t.Error("it has keys")
	}
}

func TestAnotherJobHasOtherKeys(t *testing.T) {
	if c, s := talk(token.Keys("a").Client(), token.Keys("b").Server()); c == nil && s == nil {
		t.Error("a node of one job was let into another")
	}
}

func TestAClientOfAnyJobNeedsTheToken(t *testing.T) {
	for _, job := range []string{"a", "b", ""} {
		if c, s := talk(token.AnyJob(), token.Keys(job).Server()); c != nil || s != nil {
			t.Errorf("job %q: client %v, server %v", job, c, s)
		}
	}
	if c, _ := talk((token + "x").AnyJob(), token.Keys("a").Server()); c == nil {
		t.Error("it trusted a server of another token")
	}
	blind := (token + "x").AnyJob()
	blind.VerifyConnection = nil
	if _, s := talk(blind, token.Keys("a").Server()); s == nil {
		t.Error("a server let in a client of another token")
	}
}

// A client without a token finds it in the server's certificate, if it may.
func TestALearnerNeedsTheCredential(t *testing.T) {
	const credential = "MUNGE:AwQF+/=:"
	job, other := "j", "other"
	reveals := func(c string) (string, error) {
		if c != credential {
			t.Errorf("asked for %q", c)
		}
		return string(token), nil
	}
	server := token.Public(job, credential).Server()
	for _, of := range []*string{&job, nil} {
		l := &Learner{Job: of, Reveal: reveals}
		for range 2 {
			if c, s := talk(l.Client(), server); c != nil || s != nil {
				t.Errorf("client %v, server %v", c, s)
			}
		}
		if got, from := l.Learned(); got != token || from != credential {
			t.Errorf("learned %q from %q", got, from)
		}
	}
	for name, l := range map[string]*Learner{
		"of another job":          {Job: &other, Reveal: reveals},
		"who may not know":        {Job: &job, Reveal: func(string) (string, error) { return "", errors.New("no") }},
		"who gets another's text": {Job: &job, Reveal: func(string) (string, error) { return "0123456789abcdeX", nil }},
	} {
		if c, _ := talk(l.Client(), server); c == nil {
			t.Errorf("one %s was let in", name)
		}
	}
	if c, _ := talk((&Learner{Job: &job, Reveal: reveals}).Client(), token.Keys(job).Server()); c == nil {
		t.Error("a server without a credential was trusted")
	}
}

func TestAMadeUpTokenIsWeak(t *testing.T) {
	for text, want := range map[Token]bool{"passwordpassword": true, "aaaaaaaaaaaaaaaaaaaaaaaaaaaa": true,
		"my-training-job-1": true, "8c1f0e6b7a2d94b5c3f8a1e0d7b6c5a4": false, "k3q0x9VbN2mPz7LwT1yR": false,
		"2f1c9b0e-5d3a-4c7e-9f10-aa55d0c3b1e2": false} {
		if got := text.Weak(); got != want {
			t.Errorf("%s: weak: %t", text, got)
		}
	}
}

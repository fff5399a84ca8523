// Package secret turns the one token that a job's nodes share (LAUNCH_TOKEN) into mutual TLS: no
// file to distribute, no clock to agree on. A process that knows the token has the key of the one
// certificate that both sides of a connection present and trust.
package secret

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math"
	"math/big"
	"sync"
	"time"
)

// MinLength, in bytes: every process that connects could guess a shorter token from the certificate.
const MinLength = 16

// ErrShort: an attacker could guess the token.
var ErrShort = errors.New("the token is too short")

// Token is the secret that the nodes of a job share; "": they have none.
type Token string

// Check refuses a token that is too short.
func (t Token) Check() error {
	if len(t) < MinLength {
		return fmt.Errorf("%w: it has %d bytes and needs at least %d", ErrShort, len(t), MinLength)
	}
	return nil
}

// enough is how many bits a token should have: who reaches a port can try tokens against the certificate.
const enough = 64

// Weak returns whether a person has probably made up the token. A random one of 16 bytes in hex
// has about 120 bits by this measure: its length, in digits of the alphabet that it uses.
func (t Token) Weak() bool {
	used := map[rune]bool{}
	for _, r := range t {
		used[r] = true
	}
	return float64(len(t))*math.Log2(float64(max(len(used), 1))) < enough
}

// name is the one name in the certificate, without an address: the token proves membership.
const name = "launch"

// Keys are derived from a token.
type Keys struct {
	pair tls.Certificate
	pool *x509.CertPool
}

// Keys returns the keys of a token for one job; "": of a store for many jobs, and of a bench by hand. nil:
// there is no token, or it is too short.
func (t Token) Keys(job string) *Keys {
	if t.Check() != nil {
		return nil
	}
	return t.of(serial(job))
}

// serial returns the certificate's number: it stands for the job, and does not tell its name.
func serial(job string) *big.Int {
	sum := sha256.Sum256([]byte(job))
	sum[0] = sum[0]&0x3f | 0x40 // 20 bytes at most, positive (RFC 5280, 4.1.2.2)
	return new(big.Int).SetBytes(sum[:16])
}

func (t Token) of(serial *big.Int) *Keys {
	k, err := derive(t, serial)
	if err != nil {
		panic("secret: " + err.Error()) // of fixed values: cannot fail
	}
	return k
}

func derive(t Token, serial *big.Int) (*Keys, error) {
	seed, err := hkdf.Key(sha256.New, []byte(t), serial.Bytes(), "launch/tls/2", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	// All of it is fixed: all nodes make the same certificate, valid at any time since clocks are off.
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate back: %w", err)
	}
	k := &Keys{pair: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool: x509.NewCertPool()}
	k.pool.AddCert(cert)
	return k, nil
}

// Client returns the settings of a client. It accepts the one certificate and no other, at any name or
// address, as gRPC alone would not: TLS 1.3 proves that the other side has its key.
func (k *Keys) Client() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{k.pair}, ServerName: name, MinVersion: tls.VersionTLS13,
		InsecureSkipVerify: true,
		// A post-quantum key makes the first flight longer than 1,500 bytes. A path
		// that loses large packets, which launch is to find, would lose it.
		CurvePreferences: []tls.CurveID{tls.X25519},
		VerifyConnection: k.verify,
	}
}

// verify accepts the one certificate.
func (k *Keys) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) > 0 && bytes.Equal(s.PeerCertificates[0].Raw, k.pair.Certificate[0]) {
		return nil
	}
	return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: errStranger}
}

// AnyJob returns the settings of a client of one server, whose job it does not know: the
// server's certificate has the job's number. nil: there is no token.
func (t Token) AnyJob() *tls.Config {
	first := t.Keys("")
	if first == nil {
		return nil
	}
	var mu sync.Mutex
	now := first
	c := first.Client()
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || s.PeerCertificates[0].SerialNumber.BitLen() > 8*sha256.Size {
			return first.verify(s)
		}
		k := t.of(s.PeerCertificates[0].SerialNumber)
		mu.Lock()
		now = k
		mu.Unlock()
		return k.verify(s)
	}
	c.Certificates = nil
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // after VerifyConnection
		mu.Lock()
		defer mu.Unlock()
		return &now.pair, nil
	}
	return c
}

// Either returns the settings of a client that accepts the one certificate or a trusted etcd's.
func (k *Keys) Either() *tls.Config {
	c := k.Client()
	c.ServerName, c.MinVersion = "", tls.VersionTLS12 // the name is the endpoint's
	ours := c.VerifyConnection
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if ours(s) == nil {
			return nil
		}
		opts := x509.VerifyOptions{DNSName: s.ServerName, Intermediates: x509.NewCertPool()}
		for _, i := range s.PeerCertificates[1:] {
			opts.Intermediates.AddCert(i)
		}
		_, err := s.PeerCertificates[0].Verify(opts)
		if err != nil {
			err = &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
		}
		return err
	}
	return c
}

// errStranger: the other side has another certificate.
var errStranger = errors.New("it has another token")

// Server returns the settings of a server: its clients need the same certificate.
func (k *Keys) Server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{k.pair}, ClientCAs: k.pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
}

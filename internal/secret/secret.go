// Package secret turns the one token that a job's nodes share (LAUNCH_TOKEN) into mutual TLS: no
// file to distribute, no clock to agree on. A process that knows the token has the key of the one
// certificate that both sides of a connection present and trust.
package secret

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/url"
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
func (t Token) Keys(job string) *Keys { return t.Public(job, "") }

// Public is Keys with a text in the certificate, which anybody who connects can read: a credential in
// which those who may have the token find it.
func (t Token) Public(job, credential string) *Keys {
	if t.Check() != nil {
		return nil
	}
	return t.of(serial(job), credential)
}

// New returns a token that nobody can guess.
func New() Token { return Token(rand.Text()) }

// serial returns the certificate's number: it stands for the job, and does not tell its name.
func serial(job string) *big.Int {
	sum := sha256.Sum256([]byte(job))
	sum[0] = sum[0]&0x3f | 0x40 // positive, and always of the same length
	return new(big.Int).SetBytes(sum[:numberSize])
}

// numberSize is less than the 20 bytes that a certificate's number may have (RFC 5280, 4.1.2.2).
const numberSize = 16

func (t Token) of(serial *big.Int, credential string) *Keys {
	k, err := derive(t, serial, credential)
	if err != nil {
		panic("secret: " + err.Error()) // of fixed values: cannot fail
	}
	return k
}

// scheme is that of the name in a certificate which holds a credential.
const scheme = "credential"

func derive(t Token, serial *big.Int, credential string) (*Keys, error) {
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
	if credential != "" {
		tmpl.URIs = []*url.URL{{Scheme: scheme, Opaque: hex.EncodeToString([]byte(credential))}}
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

// Client returns the settings of a client; nil without keys. It accepts the one certificate and no other, at any name
// or address, as gRPC alone would not: TLS 1.3 proves that the other side has its key.
func (k *Keys) Client() *tls.Config {
	if k == nil {
		return nil
	}
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
	if t.Check() != nil {
		return nil
	}
	return learner(func(c *x509.Certificate) (*Keys, error) { return t.of(c.SerialNumber, ""), nil })
}

// Learner is a client that has no token and finds it in the credential of its server's certificate.
type Learner struct {
	// Job is the job that the server must have; nil: any.
	Job    *string
	Reveal func(credential string) (string, error)

	mu    sync.Mutex
	last  string // the credential that was revealed last
	token Token
}

// Client returns the settings of the client.
func (l *Learner) Client() *tls.Config {
	return learner(func(c *x509.Certificate) (*Keys, error) {
		if len(c.URIs) != 1 || c.URIs[0].Scheme != scheme || l.Job != nil && c.SerialNumber.Cmp(serial(*l.Job)) != 0 {
			return nil, errStranger
		}
		credential, err := hex.DecodeString(c.URIs[0].Opaque)
		if err != nil {
			return nil, errStranger
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last != string(credential) {
			text, err := l.Reveal(string(credential))
			if err != nil {
				return nil, err
			}
			if Token(text).Check() != nil {
				return nil, errStranger
			}
			l.last, l.token = string(credential), Token(text)
		}
		return l.token.of(c.SerialNumber, l.last), nil
	})
}

// Learned returns the token and the credential that held it; "": no server has been met.
func (l *Learner) Learned() (token Token, credential string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token, l.last
}

// learner returns the settings of a client that takes its keys from the server's certificate.
func learner(of func(*x509.Certificate) (*Keys, error)) *tls.Config {
	var mu sync.Mutex
	var now *Keys
	none := Keys{pool: x509.NewCertPool()}
	c := none.Client()
	c.VerifyConnection = func(s tls.ConnectionState) error {
		var k *Keys
		err := errStranger
		if len(s.PeerCertificates) > 0 && s.PeerCertificates[0].SerialNumber.BitLen() <= 8*numberSize {
			k, err = of(s.PeerCertificates[0])
		}
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
		}
		mu.Lock()
		now = k
		mu.Unlock()
		return k.verify(s)
	}
	c.Certificates = nil
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // after VerifyConnection
		mu.Lock()
		defer mu.Unlock()
		if now == nil {
			return &tls.Certificate{}, nil
		}
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

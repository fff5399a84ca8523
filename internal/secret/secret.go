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
	"math/big"
	"time"
)

// MinLength, in bytes: every process that connects could guess a shorter token from the certificate.
const MinLength = 16

// ErrShort: an attacker could guess the token.
var ErrShort = errors.New("the token is too short")

// name is the one name in the certificate, without an address: the token proves membership.
const name = "launch"

// Keys are derived from a token.
type Keys struct {
	pair tls.Certificate
	pool *x509.CertPool
}

// New returns the keys of a token.
func New(token string) (*Keys, error) {
	if len(token) < MinLength {
		return nil, fmt.Errorf("%w: it has %d bytes and needs at least %d", ErrShort, len(token), MinLength)
	}
	seed, err := hkdf.Key(sha256.New, []byte(token), nil, "launch/tls/1", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	// All of it is fixed: all nodes make the same certificate, valid at any time since clocks are off.
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
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
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) > 0 && bytes.Equal(s.PeerCertificates[0].Raw, k.pair.Certificate[0]) {
				return nil
			}
			return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: errStranger}
		},
	}
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

package rendezvous

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Access is what an etcd that runs already asks of who comes: what etcdctl is
// given by --cacert, --cert, --key and --user. It is never printed.
type Access struct {
	CA       string `json:"ca,omitempty"` // files, PEM
	Cert     string `json:"cert,omitempty"`
	Key      string `json:"key,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// ErrAccess: the etcd is there, and refuses this node for what it brings.
var ErrAccess = errors.New("the etcd refuses this node")

// unusable is an ErrAccess that is found before the etcd is asked.
type unusable struct{ error }

func (unusable) Is(target error) bool { return target == ErrAccess }

// Config is the TLS of these files; nil where they say nothing. The error names
// the file.
func (a Access) Config() (*tls.Config, error) {
	if a.CA == "" && a.Cert == "" && a.Key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		pem, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of the etcd's authority: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the certificates of the etcd's authority: %s holds none (PEM)", a.CA)
		}
	}
	if (a.Cert == "") != (a.Key == "") {
		return nil, errors.New("a client's certificate needs its key, and the key its certificate")
	}
	if a.Cert != "" {
		// Read again at each connection, as certificates are renewed.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
			return &pair, err
		}
		if _, err := tls.LoadX509KeyPair(a.Cert, a.Key); err != nil {
			return nil, fmt.Errorf("read the client's certificate %s and key %s: %w", a.Cert, a.Key, err)
		}
	}
	return c, nil
}

// refused tells that trying again will not help: the etcd is there and wants
// somebody else.
func refused(err error) bool {
	for _, e := range []error{rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound,
		rpctypes.ErrPermissionDenied} {
		if err != nil && strings.Contains(err.Error(), rpctypes.ErrorDesc(e)) {
			return true
		}
	}
	_, unknown := errors.AsType[*tls.CertificateVerificationError](err)
	return unknown || err != nil && (strings.Contains(err.Error(), "tls: certificate required") ||
		strings.Contains(err.Error(), "tls: bad certificate"))
}

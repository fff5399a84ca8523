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

// Access has the credentials for an external etcd, as etcdctl takes them: --cacert,
// --cert, --key and --user. launch never prints them.
type Access struct {
	CA       string `json:"ca,omitempty"` // files, PEM
	Cert     string `json:"cert,omitempty"`
	Key      string `json:"key,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// ErrAccess reports that the etcd answers, and refuses this node's credentials.
var ErrAccess = errors.New("the etcd refuses this node")

// unusable is an ErrAccess that occurs before the first request.
type unusable struct{ error }

func (unusable) Is(target error) bool { return target == ErrAccess }

// Config returns the TLS settings of these files; nil where none is given. The error
// names the file.
func (a Access) Config() (*tls.Config, error) {
	if a.CA == "" && a.Cert == "" && a.Key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		pem, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificates of the etcd: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the CA certificates of the etcd: %s has no PEM certificate", a.CA)
		}
	}
	if (a.Cert == "") != (a.Key == "") {
		return nil, errors.New("a client certificate and its key go together: one is missing")
	}
	if a.Cert != "" {
		// Each connection reads the files again, as certificates are renewed.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
			return &pair, err
		}
		if _, err := tls.LoadX509KeyPair(a.Cert, a.Key); err != nil {
			return nil, fmt.Errorf("read the client certificate %s and its key %s: %w", a.Cert, a.Key, err)
		}
	}
	return c, nil
}

// refused returns whether another try is useless: the etcd answers and refuses this
// client.
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

package rendezvous

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// storeKey is the key that names the job of an embedded store.
const storeKey = "/launch/store"

// identity is the value of storeKey.
type identity struct {
	Job   string `json:"job"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Order string `json:"order"` // see Precedence
}

// OtherStoreError reports that the store belongs to another job.
type OtherStoreError struct{ Endpoint, Job, Host string }

func (e *OtherStoreError) Error() string {
	return fmt.Sprintf("the store at %s belongs to job %q on %s", e.Endpoint, e.Job, e.Host)
}

// owned returns an error unless the store at endpoint, where storeKey has this value,
// is the embedded one of job.
func owned(endpoint, job string, value []byte) error {
	if value == nil {
		return errors.New("an etcd answers there that launch did not start")
	}
	var id identity
	if err := json.Unmarshal(value, &id); err != nil {
		return fmt.Errorf("read %s: %w", storeKey, err)
	}
	if id.Job != job {
		return &OtherStoreError{Endpoint: endpoint, Job: id.Job, Host: id.Host}
	}
	return nil
}

// ours returns conditions that hold where the store is the embedded one of this job,
// if the session asks for one. The value of storeKey begins with the job.
func (s *Session) ours() []clientv3.Cmp {
	if !s.cfg.OwnStore {
		return nil
	}
	// A job's name cannot contain "host" in quotes: JSON escapes them.
	begin, _, _ := strings.Cut(encode(identity{Job: s.cfg.Job}), `"host"`)
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(storeKey), ">", begin),
		clientv3.Compare(clientv3.Value(storeKey), "<", clientv3.GetPrefixRangeEnd(begin)),
	}
}

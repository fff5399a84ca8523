package rendezvous

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// storeKey says whose store an embedded one is.
const storeKey = "/launch/store"

// identity is what stands at storeKey.
type identity struct {
	Job  string `json:"job"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
}

// OtherStoreError: something answers there, but it is another job's store.
type OtherStoreError struct{ Endpoint, Job, Host string }

func (e *OtherStoreError) Error() string {
	return fmt.Sprintf("the store at %s is the one of job %q on %s", e.Endpoint, e.Job, e.Host)
}

// owned returns whether the store at endpoint, whose storeKey has the value, is the
// embedded one of job.
func owned(endpoint, job string, value []byte) error {
	if value == nil {
		return errors.New("an etcd answers there that is not launch's")
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

// ours hold where the store is the embedded one of this job, if that is asked:
// the value at storeKey, of which the job comes first, begins as ours would.
func (s *Session) ours() []clientv3.Cmp {
	if !s.cfg.Asks {
		return nil
	}
	begin, _, _ := strings.Cut(encode(identity{Job: s.cfg.Job}), `"host"`) // not in a job's name, whose quotes are escaped
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(storeKey), ">", begin),
		clientv3.Compare(clientv3.Value(storeKey), "<", clientv3.GetPrefixRangeEnd(begin)),
	}
}

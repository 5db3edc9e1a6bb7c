package announce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// lock is a key of Consul that one session holds. It needs nothing of Postgres: whoever is to be kept
// from writing is kept by whom it writes to.
type lock struct {
	client  *client.Client
	key     string
	session string
}

const (
	// lasts is how long a session stays without being renewed: the shortest that Consul allows. It
	// ends sessions after up to twice that.
	lasts = 10 * time.Second
	// looks is how long a held lock is waited for before it is asked for again.
	looks = time.Minute
)

// held is what the key says: who holds it, and for which mesh.
type held struct {
	Mesh   string `json:"mesh"`
	Server string `json:"server"`
}

// entry is one of the answer of /v1/kv.
type entry struct {
	Session string
	Value   []byte
}

func (l *lock) path() string { return "/v1/kv/" + l.key }

// await waits until this server holds the lock. It calls asked whenever Consul has answered.
func (l *lock) await(ctx context.Context, mesh string, asked func()) error {
	q := client.Query{Path: l.path(), Consistent: true}
	for {
		var found []entry
		meta, err := l.client.Ask(ctx, q, &found)
		if refusal, is := errors.AsType[*client.Refusal](err); is && refusal.Status == http.StatusNotFound {
			meta, err = client.Meta{}, nil // nobody has ever held it
		}
		if err != nil {
			return err
		}
		if asked(); len(found) > 0 {
			if err := l.belongs(found[0].Value, mesh); err != nil {
				return err
			}
		}
		if len(found) == 0 || found[0].Session == "" {
			if has, err := l.acquire(ctx, mesh); has || err != nil {
				return err
			}
			q.After = 0
			continue
		}
		q.After, q.Wait, q.Consistent = max(meta.Index, 1), looks, false
	}
}

// belongs refuses to take away what another mesh has announced.
func (l *lock) belongs(value []byte, mesh string) error {
	var last held
	if err := json.Unmarshal(value, &last); err != nil || last.Mesh == mesh {
		return nil //nolint:nilerr // a key that says nothing belongs to nobody
	}
	return fmt.Errorf("another mesh (%s, by %s) announces its services there under this name: give this one another by ?name=. If that mesh is no more, delete the key %s in Consul, and this one takes its services away", last.Mesh, last.Server, l.key)
}

// acquire begins a session and tries to hold the lock by it.
func (l *lock) acquire(ctx context.Context, mesh string) (bool, error) {
	var created struct{ ID string }
	err := l.client.Change(ctx, "/v1/session/create", nil, map[string]any{
		"Name": "pgmesh announces services", "TTL": lasts.String(), "Behavior": "release", "LockDelay": "0s", "NodeChecks": []string{},
	}, &created)
	if err != nil {
		return false, err
	}
	l.session = created.ID
	host, _ := os.Hostname() // it is told to people
	has := false
	if err = l.client.Change(ctx, l.path(), url.Values{"acquire": {l.session}}, held{mesh, host}, &has); err == nil && has {
		return true, nil
	}
	l.release()
	return false, err
}

var errLost = errors.New("the session that this server announces services by has ended: Consul has not heard of it in time, or somebody has ended it")

// renew keeps the lock until the context ends. It returns an error once that may have failed.
func (l *lock) renew(ctx context.Context) error {
	for wait.For(ctx, lasts/3) {
		err := l.client.Change(ctx, "/v1/session/renew/"+l.session, nil, nil, nil)
		if refusal, is := errors.AsType[*client.Refusal](err); is && refusal.Status == http.StatusNotFound {
			return errLost
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// release ends the session, so that others need not wait until it would end by itself.
func (l *lock) release() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.client.Change(ctx, "/v1/session/destroy/"+l.session, nil, nil, nil) // it ends by itself
}

package supervise

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
)

// adminTimeout bounds each call of the admin API.
const adminTimeout = 5 * time.Second

var errNotStarted = errors.New("Envoy has not started yet")

// admin is the admin API of one Envoy: the path of the file that Envoy writes its address to.
type admin string

func (a admin) address() (string, error) {
	address, err := os.ReadFile(string(a))
	if err != nil || len(address) == 0 {
		return "", errNotStarted
	}
	return strings.TrimSpace(string(address)), nil
}

func (a admin) api() *envoyadmin.Admin { return envoyadmin.At(a.address) }

// ready returns nil when Envoy has its first configuration and accepts traffic.
func (a admin) ready(ctx context.Context) error {
	_, err := a.get(ctx, "/ready")
	return err
}

// isDraining reports whether that is why Envoy is not ready. It has its configuration then.
func isDraining(err error) bool {
	var refused *envoyadmin.RefusedError
	return errors.As(err, &refused) && refused.Message == "DRAINING"
}

func (a admin) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return a.api().Text(ctx, path)
}

func (a admin) post(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	_, err := a.api().Post(ctx, path)
	return err
}

func (a admin) downstream(ctx context.Context) (envoyadmin.Downstream, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return a.api().Downstream(ctx)
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// shiftSQL sets both weights in one statement.
const shiftSQL = `UPDATE mesh.route_destinations SET weight = CASE subset WHEN 'v1' THEN %d ELSE %d END WHERE virtual_service = 'hello'`

// weightsSQL reads both weights.
const weightsSQL = `SELECT coalesce(sum(weight) FILTER (WHERE subset = 'v1'), 0), coalesce(sum(weight) FILTER (WHERE subset = 'v2'), 0)
	FROM mesh.route_destinations WHERE virtual_service = 'hello' HAVING count(*) > 0`

// weights are the shares of v1 and v2, of a hundred requests.
type weights struct{ v1, v2 int }

func (w weights) String() string { return fmt.Sprintf("v1 %d, v2 %d", w.v1, w.v2) }

// only returns the version that gets all requests, "" if none does.
func (w weights) only() string {
	switch {
	case w.v1 > 0 && w.v2 == 0:
		return "v1"
	case w.v2 > 0 && w.v1 == 0:
		return "v2"
	}
	return ""
}

// opposite sends all requests to the other version.
func (w weights) opposite() weights {
	if w.only() == "v1" {
		return weights{0, 100}
	}
	return weights{100, 0}
}

func readWeights(ctx context.Context, db *pgx.Conn) (w weights, err error) {
	if err = db.QueryRow(ctx, weightsSQL).Scan(&w.v1, &w.v2); err != nil {
		err = fmt.Errorf("read the weights of VirtualService hello: %w", err)
	}
	return w, err
}

// service calls the demo's service through Envoy.
type service struct {
	url    string
	client *http.Client
}

// ask returns the body of the answer, "" if there was none or it was an error.
func (s *service) ask(ctx context.Context) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return ""
	}
	request.Host = "hello.demo"
	response, err := s.client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(body))
}

// shift commits new weights, and returns the time from the call of COMMIT to the first answer from
// the version that now gets all requests. It sends requests without a pause, since the first such
// answer is what it measures.
func (s *service) shift(ctx context.Context, db *pgx.Conn, to weights) (time.Duration, error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, fmt.Sprintf(shiftSQL, to.v1, to.v2)); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := tx.Commit(ctx); err != nil {
		return 0, err
	}
	for s.ask(ctx) != greeting(to.only()) {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("wait for the first answer from %s: %w", to.only(), ctx.Err())
		}
	}
	return time.Since(began), nil
}

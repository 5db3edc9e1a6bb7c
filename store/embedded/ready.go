package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ready returns when the server answers. Postgres offers no signal for that which works on every
// platform, so it is asked again and again, closely.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.process.Done():
			return errors.New("it ended at once: " + s.complaint())
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w: %s", err, s.complaint())
		case <-tick.C:
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// complaint is what the server logged before it gave up.
func (s *Server) complaint() string {
	content, err := os.ReadFile(s.layout.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

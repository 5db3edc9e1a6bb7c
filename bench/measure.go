package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// ruleHeader is the header that the changed rule adds to every answer, with the number of the
// change.
const ruleHeader = "x-rule"

// sample is one measured change.
type sample struct {
	// Committed is when COMMIT returned, Answered when the first answer by the new rule arrived.
	// Both count from the call of COMMIT.
	Committed, Answered time.Duration
}

// changeTimeout is when a change without effect counts as lost.
const changeTimeout = 10 * time.Second

// measure commits an open transaction, and sends requests through Envoy until an answer has the
// number.
func measure(ctx context.Context, tx pgx.Tx, client *http.Client, host, address string, number int) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	want, committed := strconv.Itoa(number), make(chan result, 1)
	start := time.Now()
	go func() {
		err := tx.Commit(ctx)
		committed <- result{time.Since(start), err}
	}()
	for {
		got, err := ask(ctx, client, host, address)
		if err != nil {
			return sample{}, err
		}
		if got != want {
			continue
		}
		answered := time.Since(start)
		c := <-committed
		return sample{Committed: c.after, Answered: answered}, c.err
	}
}

type result struct {
	after time.Duration
	err   error
}

// ask sends one request through Envoy and returns the rule that answered it.
func ask(ctx context.Context, client *http.Client, host, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("a request during the change failed: %s", resp.Status)
	}
	return resp.Header.Get(ruleHeader), nil
}

// answering returns when Envoy serves both.
func answering(ctx context.Context, p *product, f *floor) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, at := range []struct {
		client *http.Client
		port   int
	}{{p.client, p.port}, {f.client, f.port}} {
		for {
			_, err := ask(ctx, at.client, host, fmt.Sprintf("127.0.0.1:%d", at.port))
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("envoy does not answer: %w", err)
			}
			time.Sleep(time.Millisecond) // Envoy does not report when it begins to listen
		}
	}
	return nil
}

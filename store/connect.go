package store

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectTimeout bounds the wait for an address that drops packets, before the next is tried.
const connectTimeout = 10 * time.Second

func prepareConnection(config *pgx.ConnConfig, application string) {
	config.RuntimeParams["application_name"] = application
	config.OnNotice = receiveNotice
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
}

// connectPools creates the pools, which connect on first use.
func (s *Store) connectPools(config *pgxpool.Config) (err error) {
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return err
	}
	if s.trust, err = newTrustPool(config); err != nil {
		s.pool.Close()
	}
	return err
}

// ConnConfig returns the configuration for connections of a part of the program, such as "feed",
// beside the pools; to the store's own database if the URL is empty.
func (s *Store) ConnConfig(url, part string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(cmp.Or(url, s.pool.Config().ConnString()))
	if err != nil {
		return nil, err
	}
	prepareConnection(config, s.options.Application+" "+part)
	return config, nil
}

// NoCompiling turns off JIT compilation, which takes 50 ms of processor time or more: more than any
// query of the programs gains. The schema's functions turn it off themselves, for sessions of
// users.
const NoCompiling = "SET jit = off"

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
)

// joinTokenVariable is the environment variable that may hold the join token.
const joinTokenVariable = "PGMESH_JOIN_TOKEN" //nolint:gosec // the name of one

// credentialFlags are the credentials for joining.
type credentialFlags struct {
	token, tokenFile, jwtFile, roots string

	fromInput bool // read a token from standard input if nothing else is given

	group string // the token's WorkloadGroup, once the machine has joined
}

func (f *credentialFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the join token that makes this machine a member, \"-\" for standard input; mcp-client token create makes one")
	flags.StringVar(&f.token, "token", "", "the join token itself; others on this machine, and the history of the shell, see it: better is a file, the variable "+joinTokenVariable+", or \"-\" for standard input")
	flags.StringVar(&f.jwtFile, "jwt-file", "", "file with a JSON web token, of somebody whom the mesh trusts, to join with in place of a join token")
	flags.StringVar(&f.roots, "roots", "", "PEM file with the mesh's roots, with --jwt-file: they tell whether it is the mesh that the token is shown to")
}

func (f *credentialFlags) given() bool {
	return f.token != "" || f.tokenFile != "" || f.jwtFile != "" || os.Getenv(joinTokenVariable) != ""
}

// ask returns how to get the first certificate from any of the servers.
func (f *credentialFlags) ask(ctx context.Context, servers []string, log *slog.Logger) (membership.Ask, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.jwtFile != "" {
		pem, err := os.ReadFile(f.roots)
		if err != nil {
			return nil, fmt.Errorf("--roots: %w", err)
		}
		roots, err := authority.ParseCertificates(pem)
		if err != nil {
			return nil, fmt.Errorf("--roots %s: %w", f.roots, err)
		}
		return join.ByWebToken(servers, roots, f.webToken, f.joined), nil
	}
	text, err := f.joinToken(ctx, log)
	if err != nil {
		return nil, err
	}
	token, err := jointoken.Parse(text)
	if err != nil {
		return nil, err
	}
	return join.ByToken(servers, token, f.joined), nil
}

func (f *credentialFlags) joined(group string) { f.group = group }

func (f *credentialFlags) check() error {
	given := 0
	for _, value := range []string{f.token, f.tokenFile, f.jwtFile} {
		if value != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("--token, --token-file and --jwt-file: give one of them")
	case given == 0 && os.Getenv(joinTokenVariable) == "" && !f.fromInput:
		return errors.New("what is this machine to join with? Give --token-file, with what mcp-client token create has printed, or --jwt-file and --roots")
	case f.jwtFile != "" && f.roots == "":
		return errors.New("--jwt-file needs --roots, a file with the mesh's roots: whoever is shown the token could use it, and has to be of the mesh")
	case f.jwtFile == "" && f.roots != "":
		return errors.New("--roots is for --jwt-file: a join token names the roots itself")
	}
	return nil
}

// joinToken returns the join token's text.
func (f *credentialFlags) joinToken(ctx context.Context, log *slog.Logger) (string, error) {
	switch {
	case f.tokenFile == standardInput, f.token == standardInput:
		return readToken(ctx, os.Stdin, os.Stderr)
	case f.tokenFile != "":
		content, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return string(content), nil
	case f.token != "":
		log.Warn("the join token was given as an argument, which others on this machine and the history of the shell see: leave --token out, and it is asked for, or give --token-file")
		return f.token, nil
	case os.Getenv(joinTokenVariable) != "":
		return os.Getenv(joinTokenVariable), nil
	default:
		return readToken(ctx, os.Stdin, os.Stderr)
	}
}

// webToken reads the token for each attempt, as its issuer may replace it.
func (f *credentialFlags) webToken() (string, error) {
	content, err := os.ReadFile(f.jwtFile)
	if err != nil {
		return "", fmt.Errorf("--jwt-file: %w", err)
	}
	text := strings.TrimSpace(string(content))
	if strings.Count(text, ".") != 2 || strings.ContainsAny(text, " \t\r\n") {
		return "", fmt.Errorf("--jwt-file %s: there has to be one JSON web token in it, three parts with dots between, and nothing else", f.jwtFile)
	}
	return text, nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/discovery/source/files"
)

// applyCommand makes a discovery serve the case in a folder, and nothing else.
func applyCommand() *cobra.Command {
	var to, page string
	cmd := &cobra.Command{
		Use: "apply FOLDER", Short: "Make a discovery serve the case in a folder, and return when it does", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := put(args[0], to); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			return inForce(ctx, to, page)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the directory that discovery watches")
	cmd.Flags().StringVar(&page, "page", "", "where discovery tells of its files")
	return cmd
}

// put swaps the files of the case before for those of this one, at once.
func put(folder, to string) error {
	next, err := os.MkdirTemp(filepath.Dir(to), "case-")
	if err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(folder, "config.yaml"))
	if err != nil {
		return err
	}
	mesh, err := os.ReadFile(filepath.Join(folder, "mesh.yaml"))
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(mesh)) > 0 {
		config = append(append(config, "\n---\n"...), meshConfig(string(mesh))...)
	}
	if config, err = withoutEarlier(config); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(next, "config.yaml"), config, 0o600); err != nil { //nolint:gosec // the folder is our own
		return err
	}
	link := filepath.Join(to, "case")
	before, _ := os.Readlink(link) // the first case has none before it
	if err := os.Symlink(next, link+".next"); err != nil {
		return err
	}
	if err := os.Rename(link+".next", link); err != nil {
		return err
	}
	if before == "" {
		return nil
	}
	return os.RemoveAll(before)
}

// withoutEarlier leaves the last of the documents with one name: some cases give a resource twice,
// and mean that the second replaces the first.
func withoutEarlier(config []byte) ([]byte, error) {
	type name struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name string }
	}
	last, order := map[name]*yaml.Node{}, []name{}
	for documents := yaml.NewDecoder(bytes.NewReader(config)); ; {
		var node yaml.Node
		if err := documents.Decode(&node); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		var n name
		if err := node.Decode(&n); err != nil {
			return nil, err
		}
		if last[n] == nil {
			order = append(order, n)
		}
		last[n] = &node
	}
	if len(order) == 0 {
		return nil, nil // the encoder cannot end what it has not begun
	}
	var out bytes.Buffer
	documents := yaml.NewEncoder(&out)
	for _, n := range order {
		if err := documents.Encode(last[n]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), documents.Close()
}

// meshConfig makes a resource of a MeshConfig as Istio's operators write it.
func meshConfig(text string) string {
	return "apiVersion: core/v1alpha1\nkind: MeshConfig\nmetadata:\n  name: meshconfig\n  namespace: istio-system\nspec:\n  " +
		strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

// inForce waits until discovery says that it serves what lies in the directory.
func inForce(ctx context.Context, directory, page string) error {
	want, err := files.Version(directory)
	if err != nil {
		return err
	}
	for {
		s, err := status(ctx, page)
		if err != nil {
			return err
		}
		if (s.Version == want || !s.Begun) && s.Problem() != "" {
			return errors.New(s.Problem())
		}
		if s.Version == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("discovery serves version %q and not %q: %w", s.Version, want, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func status(ctx context.Context, page string) (s files.Status, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	return s, json.NewDecoder(answer.Body).Decode(&s)
}

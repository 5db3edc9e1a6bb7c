package explain

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Case is what an explanation may ask of a case of the corpus.
type Case struct {
	ID    string
	Env   map[string]string // Istio's switches
	Proxy struct {
		Metadata map[string]any
	}
	Config string

	kinds map[string]bool // of its resources
}

// ReadCase reads the file of a case.
func ReadCase(path string) (*Case, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &Case{kinds: map[string]bool{}}
	if err := yaml.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for documents := yaml.NewDecoder(strings.NewReader(c.Config)); ; {
		var resource struct{ Kind string }
		switch err := documents.Decode(&resource); {
		case errors.Is(err, io.EOF):
			return c, nil
		case err != nil:
			return nil, fmt.Errorf("read the configuration in %s: %w", path, err)
		}
		c.kinds[resource.Kind] = true
	}
}

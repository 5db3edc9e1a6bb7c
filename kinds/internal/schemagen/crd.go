package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds"
)

// crd has the fields that are read of a CustomResourceDefinition.
type crd struct {
	Kind string
	Spec struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema openAPI `yaml:"openAPIV3Schema"`
			}
		}
	}
}

// openAPI has the fields that are read of a value's schema.
type openAPI struct {
	Type                 string
	Description          string
	Properties           map[string]*openAPI
	AdditionalProperties *openAPI `yaml:"additionalProperties"`
	Items                *openAPI
	Required             []string
	Enum                 []string
	Minimum, Maximum     *float64
	MinItems             *int `yaml:"minItems"`
	MaxItems             *int `yaml:"maxItems"`
	MinProperties        *int `yaml:"minProperties"`
	MaxProperties        *int `yaml:"maxProperties"`
	MinLength            *int `yaml:"minLength"`
	MaxLength            *int `yaml:"maxLength"`
	Pattern              string
	Validations          []struct{ Rule string } `yaml:"x-kubernetes-validations"`
}

// readCRDs reads the definitions in the files of a module that match the pattern.
func readCRDs(module, pattern string) ([]crd, error) {
	dir, err := moduleDir(module)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return nil, fmt.Errorf("look for the files %s of the module %s: %w", pattern, module, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the module %s has no files %s", module, pattern)
	}
	var crds []crd
	for _, file := range files {
		more, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		crds = append(crds, more...)
	}
	return crds, nil
}

// moduleDir downloads module@version, or finds the version that go.mod names.
func moduleDir(module string) (string, error) {
	arguments := []string{"list", "-m", "-json", module}
	if strings.Contains(module, "@") {
		arguments = []string{"mod", "download", "-json", module}
	}
	output, err := exec.Command("go", arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("locate the module %s: %w: %s", module, err, output)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(output, &found); err != nil {
		return "", fmt.Errorf("locate the module %s: %w", module, err)
	}
	return found.Dir, nil
}

func readFile(file string) ([]crd, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var crds []crd
	documents := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var c crd
		err := documents.Decode(&c)
		if errors.Is(err, io.EOF) {
			return crds, nil
		}
		if err != nil {
			return nil, err
		}
		if c.Kind == "CustomResourceDefinition" {
			crds = append(crds, c)
		}
	}
}

// findSpec returns the schema of a kind's spec in its first version, nil if no definition has that.
func findSpec(crds []crd, k *kinds.Kind) *openAPI {
	for _, c := range crds {
		if c.Spec.Group != k.Group || c.Spec.Names.Kind != k.Name {
			continue
		}
		for _, v := range c.Spec.Versions {
			if v.Name == k.Versions[0] {
				return v.Schema.OpenAPIV3Schema.Properties["spec"]
			}
		}
	}
	return nil
}

package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/template"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Complete merges a user's file over a bootstrap. The file is Envoy's Bootstrap in YAML or JSON,
// and a Go template over the fields of Options, with the function env for environment variables.
// Objects are merged field by field. List elements are merged with an existing one of the same
// name, and otherwise appended. Everything else is replaced.
func Complete(data []byte, path string, o Options) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-template: %w", err)
	}
	t, err := template.New(path).Option("missingkey=error").Funcs(template.FuncMap{"env": os.Getenv}).Parse(string(content)) //nolint:forbidigo // it is what templates ask for
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-template: %w", err)
	}
	var text bytes.Buffer
	if err := t.Execute(&text, o); err != nil {
		return nil, fmt.Errorf("--bootstrap-template: %w", err)
	}
	var own, ours any
	if err := yaml.Unmarshal(text.Bytes(), &own); err != nil {
		return nil, fmt.Errorf("--bootstrap-template %s: %w", path, err)
	}
	if own == nil {
		return nil, fmt.Errorf("--bootstrap-template %s: there is nothing in it: write fields of Envoy's bootstrap, such as stats_sinks, or leave the flag out", path)
	}
	if _, is := own.(map[string]any); !is {
		return nil, fmt.Errorf("--bootstrap-template %s: expected fields of Envoy's bootstrap at the top, such as static_resources", path)
	}
	if err := json.Unmarshal(data, &ours); err != nil {
		return nil, err
	}
	merged, err := merge(ours, own, "")
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-template %s: %w", path, err)
	}
	return json.MarshalIndent(merged, "", "  ")
}

// merge merges over into under; place is the path for errors.
func merge(under, over any, place string) (any, error) {
	switch over := over.(type) {
	case map[string]any:
		if below, is := under.(map[string]any); is {
			return mergeObjects(below, over, place)
		}
		if under == nil {
			return over, nil
		}
	case []any:
		if below, is := under.([]any); is {
			return mergeLists(below, over, place)
		}
		if under == nil {
			return over, nil
		}
	default:
		switch under.(type) {
		case map[string]any, []any:
		default:
			return over, nil
		}
	}
	return nil, fmt.Errorf("%s: the agent's bootstrap has %s there, and the file %s", strings.TrimPrefix(place, "."), kindOf(under), kindOf(over))
}

func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	default:
		return "a single value"
	}
}

func mergeObjects(under, over map[string]any, place string) (any, error) {
	var wrong []error
	for key, value := range over {
		if snake := snakeCase(key); under[key] == nil && under[snake] != nil {
			key = snake // Envoy accepts either spelling, but not both
		}
		merged, err := merge(under[key], value, place+"."+key)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		under[key] = merged
	}
	return under, errors.Join(wrong...)
}

// mergeLists merges elements of the same name, and appends the others.
func mergeLists(under, over []any, place string) (any, error) {
	for _, each := range over {
		i := indexOfSameName(under, each)
		if i < 0 {
			under = append(under, each)
			continue
		}
		merged, err := merge(under[i], each, fmt.Sprintf("%s[%d]", place, i))
		if err != nil {
			return nil, err
		}
		under[i] = merged
	}
	return under, nil
}

// indexOfSameName returns the index of the element with the same name, or -1.
func indexOfSameName(list []any, element any) int {
	object, _ := element.(map[string]any)
	if object["name"] == nil {
		return -1
	}
	for i, each := range list {
		if other, is := each.(map[string]any); is && other["name"] == object["name"] {
			return i
		}
	}
	return -1
}

func snakeCase(key string) string {
	var snake strings.Builder
	for _, r := range key {
		if unicode.IsUpper(r) {
			snake.WriteByte('_')
		}
		snake.WriteRune(unicode.ToLower(r))
	}
	return snake.String()
}

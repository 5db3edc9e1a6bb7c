package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

func openAPIOf(t *testing.T, text string) *openAPI {
	t.Helper()
	s := &openAPI{}
	require.NoError(t, yaml.Unmarshal([]byte(text), s))
	return s
}

func TestConvert(t *testing.T) {
	t.Parallel()
	types := map[string]*schema.Type{}
	require.NoError(t, convert(types, "g/K", openAPIOf(t, `
type: object
required: [rules]
properties:
  rules:
    type: array
    maxItems: 2
    items:
      type: object
      properties:
        port: {type: integer, format: int32, minimum: 1, maximum: 65535}
        open: {type: object, x-kubernetes-preserve-unknown-fields: true}
  labels: {type: object, minProperties: 1, additionalProperties: {type: string, maxLength: 63}}
  mode: {type: string, enum: [A, B]}
x-kubernetes-validations:
- rule: '(has(self.labels) ? 1 : 0) + (has(self.mode) ? 1 : 0) <= 1'
- rule: 'self.size() > 0'
`)))
	require.Equal(t, map[string]*schema.Type{
		"g/K": {
			Fields: []schema.Field{
				{Name: "labels", Type: schema.String, Map: true, MinItems: number(1), MaxLength: number(63)},
				{Name: "mode", Type: schema.Enum, Enum: []string{"A", "B"}},
				{Name: "rules", Type: schema.Message, TypeRef: "g/K.rules", Repeated: true, Required: true, MaxItems: number(2)},
			},
			Oneofs: [][]string{{"labels", "mode"}},
		},
		"g/K.rules": {Fields: []schema.Field{
			{Name: "open", Type: schema.Struct},
			{Name: "port", Type: schema.Int32, Min: number(1.0), Max: number(65535.0)},
		}},
	}, types)
}

func TestConvertRefusesUnknownTypes(t *testing.T) {
	t.Parallel()
	err := convert(map[string]*schema.Type{}, "g/K", openAPIOf(t, `{type: object, properties: {a: {type: "null"}}}`))
	require.EqualError(t, err, `a: a value of the type "null" is not supported`)
}

func TestLooserConstraintWins(t *testing.T) {
	t.Parallel()
	a := schema.Field{Required: true, Min: number(1.0), Max: number(5.0), MinItems: number(2), MaxLength: number(9), Pattern: "^a"}
	loosen(&a, schema.Field{Required: true, Min: number(0.0), Max: number(9.0), MinItems: number(1), Pattern: "^a"})
	require.Equal(t, schema.Field{Required: true, Min: number(0.0), Max: number(9.0), MinItems: number(1), Pattern: "^a"}, a)
	loosen(&a, schema.Field{})
	require.Equal(t, schema.Field{}, a)
}

func TestRuleMustNameAField(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, override(map[string]*schema.Type{}), "a rule names the message istio.networking.v1alpha3.HTTPRouteDestination, which no kind has")
}

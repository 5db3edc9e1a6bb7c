-- CEL expressions, of which only the form is checked: an expression is reduced part by part until
-- one value is left. The programs take the same steps.

-- cel_tokens reduces an expression to its form: x is a value, o is an operator between two.
CREATE OR REPLACE FUNCTION mesh_internal.cel_tokens(v text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  step record;
BEGIN
  FOR step IN SELECT * FROM (VALUES
    (1, '"""("?"?[^"])*"""|''''''(''?''?[^''])*''''''|[rR]("[^"]*"|''[^'']*'')|"(\\[^\n]|[^"\\\n])*"|''(\\[^\n]|[^''\\\n])*''', 'x'),
    (2, '//[^\n]*', ''),
    (3, '(^|[^A-Za-z0-9_.])in($|[^A-Za-z0-9_])', '\1<\2'),
    (4, '[A-Za-z0-9_]+', 'x'),
    (5, '\s+', ''),
    (6, '==|!=|<=|>=|&&|\|\||[+*/%<>]', 'o')
  ) AS s (i, pattern, value) ORDER BY i LOOP
    v := regexp_replace(v, step.pattern, step.value, 'g');
  END LOOP;
  RETURN v;
END $$;

-- is_cel reports whether a string has the form of a CEL expression. It does not check what the
-- names mean.
CREATE OR REPLACE FUNCTION mesh_internal.is_cel(v text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rest   text := mesh_internal.cel_tokens(v);
  before text := '';
  step   record;
BEGIN
  WHILE rest <> before LOOP
    before := rest;
    FOR step IN SELECT * FROM (VALUES
      (1, 'x\((x(,x)*)?\)', 'x'),
      (2, 'x\[x\]', 'x'),
      (3, 'x?\{(x:x(,x:x)*,?)?\}', 'x'),
      (4, 'x\.x', 'x'),
      (5, '(^|[^])x}])\.x', '\1x'),
      (6, '(^|[^])x}])\(x\)', '\1x'),
      (7, '(^|[^])x}])\[(x(,x)*,?)?\]', '\1x'),
      (8, '(^|[^])x}])[-!]+x', '\1x'),
      (9, 'x(o|-)x', 'x'),
      (10, 'x\?x:x', 'x')
    ) AS s (i, pattern, value) ORDER BY i LOOP
      rest := regexp_replace(rest, step.pattern, step.value, 'g');
    END LOOP;
  END LOOP;
  RETURN rest = 'x';
END $$;

-- The labels by which workloads are selected.

-- with_place adds to the labels of a workload those of where it is, as discovery does: its locality
-- overrules labels of its own, its network does not.
CREATE OR REPLACE FUNCTION mesh_internal.with_place(labels jsonb, locality text, network text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  placed jsonb := CASE WHEN network <> '' THEN jsonb_build_object('topology.istio.io/network', network) || labels ELSE labels END;
BEGIN
  IF locality <> '' THEN
    RETURN placed || mesh_internal.locality_labels(locality);
  ELSIF labels ? 'istio-locality' THEN
    RETURN placed || mesh_internal.locality_labels(replace(labels ->> 'istio-locality', '.', '/'));
  END IF;
  RETURN placed;
END $$;

-- locality_labels returns the labels of a locality, REGION/ZONE/SUBZONE.
CREATE OR REPLACE FUNCTION mesh_internal.locality_labels(locality text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  zone    text := split_part(locality, '/', 2);
  region  text := split_part(locality, '/', 1);
  subzone text := substr(locality, length(region) + length(zone) + 3);
  labels  jsonb := '{}';
BEGIN
  IF region <> '' THEN
    labels := jsonb_build_object('topology.kubernetes.io/region', region);
  END IF;
  IF zone <> '' THEN
    labels := labels || jsonb_build_object('topology.kubernetes.io/zone', zone);
  END IF;
  IF subzone <> '' THEN
    labels := labels || jsonb_build_object('topology.istio.io/subzone', subzone);
  END IF;
  RETURN labels;
END $$;

-- selects_by_place reports whether labels to select by name where a workload is.
CREATE OR REPLACE FUNCTION mesh_internal.selects_by_place(selector jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT selector ?| '{topology.istio.io/network,topology.kubernetes.io/region,topology.kubernetes.io/zone,topology.istio.io/subzone}'
$$;

-- What a process runs in, by names.
ALTER TABLE store.processes ADD COLUMN container_id text, ADD COLUMN image text, ADD COLUMN pod text,
    ADD COLUMN namespace text, ADD COLUMN unit text;
UPDATE store.processes SET container_id = container, container = NULL WHERE container IS NOT NULL;
COMMENT ON COLUMN store.processes.container_id IS
    'id of the innermost container; null: not in a container';
COMMENT ON COLUMN store.processes.container IS 'name of the container; null: none, or not known';
COMMENT ON COLUMN store.processes.image IS 'image of the container';
COMMENT ON COLUMN store.processes.pod IS 'name of the pod; its uid or id if the name is not known';
COMMENT ON COLUMN store.processes.namespace IS 'namespace of the pod';
COMMENT ON COLUMN store.processes.unit IS 'unit of systemd';

CREATE OR REPLACE VIEW scope.processes AS
SELECT m.machine_id, m.hostname, p.pid, p.start_ns, p.parent_pid, p.exe, p.cmdline, p.cgroup,
       coalesce(p.container, left(p.container_id, 12)) AS container, p.container_id, p.image, p.pod, p.namespace, p.unit
FROM store.processes p JOIN store.machines m ON m.id = p.machine;
COMMENT ON COLUMN scope.processes.container IS
    'name of the container, or the first 12 characters of its id if the name is not known; null: not in a container';
COMMENT ON COLUMN scope.processes.container_id IS 'id of the innermost container';
COMMENT ON COLUMN scope.processes.image IS 'image of the container';
COMMENT ON COLUMN scope.processes.pod IS 'name of the pod; its uid or id if the name is not known';
COMMENT ON COLUMN scope.processes.namespace IS 'namespace of the pod';
COMMENT ON COLUMN scope.processes.unit IS 'unit of systemd';

"""What is rendered of the manifests: that Kubernetes takes it, and keeps what it promises."""

import ipaddress
import re
import shutil
import tomllib

import yaml

from manifests import KUBERNETES, MONITORING, OVERLAYS, containers, environment, key, pod, render, selects
from support import ROOT, Case, read

MONITORS = ["PodMonitor", "ServiceMonitor"]
UNITS = {"Mi": 2**20, "Gi": 2**30}


def bytes_of(size):
    """Of Kubernetes' sizes and of the program's."""
    number, unit = re.fullmatch(r"(\d+)([MG]i)B?", size).groups()
    return int(number) * UNITS[unit]


class Manifests(Case):
    def setUp(self):
        super().setUp()
        self.rendered = {overlay: render(KUBERNETES / "overlays" / overlay) for overlay in OVERLAYS}
        self.monitoring = {name: render(KUBERNETES / "monitoring" / name) for name in MONITORING}

    def all(self):
        """Each directory that is for `kubectl apply`, and what is rendered of it."""
        yield from ((KUBERNETES / "overlays" / name, resources) for name, resources in self.rendered.items())
        yield from ((KUBERNETES / "monitoring" / name, resources) for name, resources in self.monitoring.items())

    def find(self, overlay, kind, name):
        (found,) = (it for it in self.rendered[overlay] if key(it) == (kind, name))
        return found

    def container(self, overlay, kind, owner, name):
        (found,) = (it for it in containers(self.find(overlay, kind, owner)) if it["name"] == name)
        return found

    def policy_of(self, overlay, owner):
        """The policies that hold for the pods of a Job or StatefulSet."""
        labels = owner["spec"]["template"]["metadata"]["labels"]
        policies = [it["spec"] for it in self.rendered[overlay] if it["kind"] == "NetworkPolicy"]
        return [it for it in policies if selects(it["podSelector"], labels)]

    def test_kubernetes_takes_every_resource(self):
        for _, resources in self.all():
            file = self.directory / "rendered.yaml"
            own = [it for it in resources if it["kind"] not in MONITORS]
            if own:
                file.write_text(yaml.dump_all(own))
                said = self.succeed("kubernetes-validate", "--strict", file)
                self.assertEqual(said.count("passed for resource"), len(own), said)
            for monitor in (it for it in resources if it["kind"] in MONITORS):
                file.write_text(yaml.dump(monitor))
                schema = ROOT / "tests/deploy/monitor.schema.json"
                self.succeed("check-jsonschema", "--schemafile", schema, file)

    def test_kubectl_renders_the_same(self):
        """Where there is one that renders: from 1.21 on, which Debian 12 has not. Without it the others
        look at what is rendered here."""
        if shutil.which("kubectl") is None or "v1.20" in self.succeed("kubectl", "version", "--client"):
            self.skipTest("there is no kubectl that renders")
        for directory, resources in self.all():
            theirs = yaml.safe_load_all(self.succeed("kubectl", "kustomize", directory))
            by_key = lambda found: {key(it): it for it in found}
            self.assertEqual(by_key(theirs), by_key(resources))

    def test_every_pod_is_restricted(self):
        """The level "restricted" of the Pod Security Standards, and no key to the cluster. The one exception
        is what makes the rules of a pod's network, which has a test of its own."""
        owners = [it for found in self.rendered.values() for it in found if pod(it)]
        self.assertEqual(len(owners), 9)
        for owner in owners:
            spec = pod(owner)
            self.assertIs(spec["automountServiceAccountToken"], False)
            self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
            self.assertEqual(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
            self.assertGreater(spec["terminationGracePeriodSeconds"] if "state" in str(spec) else 30, 25)
            for container in containers(owner):
                closed = container["securityContext"]
                self.assertIn("memory", container["resources"]["limits"])
                self.assertIn("cpu", container["resources"]["requests"])
                for of in ["requests", "limits"]:
                    self.assertIn("ephemeral-storage", container["resources"][of])
                if container["name"] == "redirect":
                    continue
                self.assertNotEqual(closed.get("runAsUser"), 0)
                self.assertIs(closed.get("runAsNonRoot", True), True)
                self.assertIs(closed["allowPrivilegeEscalation"], False)
                self.assertIs(closed["readOnlyRootFilesystem"], True)
                self.assertEqual(closed["capabilities"], {"drop": ["ALL"]})

    def test_what_a_pod_mounts_is_there(self):
        made_by_hand = {"courtesy-ca", "courtesy-admin", "courtesy-trust", "courtesy-engine"}
        for overlay, found in self.rendered.items():
            maps = {it["metadata"]["name"] for it in found if it["kind"] == "ConfigMap"} | made_by_hand
            for owner in filter(pod, found):
                claims = {it["metadata"]["name"] for it in owner["spec"].get("volumeClaimTemplates", [])}
                volumes = {it["name"]: it for it in pod(owner)["volumes"]}
                for volume in volumes.values():
                    if "configMap" in volume:
                        self.assertIn(volume["configMap"]["name"], maps)
                    if "secret" in volume:
                        self.assertIn(volume["secret"]["secretName"], made_by_hand)
                for container in containers(owner):
                    mounted = {it["name"] for it in container["volumeMounts"]}
                    self.assertLessEqual(mounted, set(volumes) | claims, f"{overlay}: {container['name']}")

    def test_the_sidecar_is_a_native_one_that_is_ready_before_the_crawler_starts(self):
        init = pod(self.find("sidecar", "Job", "crawler"))["initContainers"]
        self.assertEqual([it["name"] for it in init], ["trust", "courtesy"])
        trust, proxy = init
        self.assertNotIn("restartPolicy", trust)
        self.assertEqual(trust["args"], ["env"])
        self.assertEqual(proxy["restartPolicy"], "Always")
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
            self.assertEqual(proxy[probe]["exec"]["command"][:2], ["/usr/bin/courtesy", "health"])
        self.assertIn("--live", proxy["livenessProbe"]["exec"]["command"])
        # A slow start or a slow moment is no reason to end it.
        patience = proxy["livenessProbe"]["periodSeconds"] * proxy["livenessProbe"]["failureThreshold"]
        self.assertGreaterEqual(patience, 60)

    def test_the_crawler_beside_it_trusts_its_ca_and_never_sees_the_key(self):
        crawler = self.container("sidecar", "Job", "crawler", "crawler")
        proxy = self.container("sidecar", "Job", "crawler", "courtesy")
        shared = {it["name"]: it["mountPath"] for it in proxy["volumeMounts"]}
        self.assertEqual([it["name"] for it in crawler["volumeMounts"]], ["trust"])
        (trust,) = crawler["volumeMounts"]
        self.assertTrue(trust["readOnly"])
        self.assertEqual((trust["mountPath"], shared["state"] + "/clients"), (shared["trust"], shared["trust"]))
        for overlay in OVERLAYS:
            given = environment(self.container(overlay, "Job", "crawler", "crawler"))
            for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"]:
                self.assertEqual(given[name], trust["mountPath"] + "/bundle.pem")
            if overlay == "transparent":
                self.assertEqual([name for name in given if "proxy" in name.lower()], [])
                continue
            host = "courtesy" if overlay in ["shared", "gateway-ha"] else "127.0.0.1"
            address = f"http://{host}:3128"
            for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"]:
                self.assertEqual(given[name], address)
            self.assertEqual((given["no_proxy"], given["NO_PROXY"]), ("", ""))

    def test_the_rules_of_a_pods_network_hold_before_the_crawler_starts(self):
        init = pod(self.find("transparent", "Job", "crawler"))["initContainers"]
        self.assertEqual([it["name"] for it in init], ["trust", "redirect", "courtesy"])
        redirect = init[1]
        self.assertNotIn("restartPolicy", redirect)
        self.assertEqual(redirect["volumeMounts"], [])
        closed = redirect["securityContext"]
        self.assertEqual(closed["capabilities"], {"drop": ["ALL"], "add": ["NET_ADMIN"]})
        self.assertIs(closed["allowPrivilegeEscalation"], False)
        self.assertIs(closed["readOnlyRootFilesystem"], True)
        self.assertEqual((closed["runAsUser"], closed["runAsNonRoot"]), (0, False))
        # But for the listener, the proxy is that of the sidecar.
        proxy, alone = init[2], self.container("sidecar", "Job", "crawler", "courtesy")
        self.assertEqual({name: it for name, it in proxy.items() if name != "env"}, alone)
        self.assertEqual(environment(proxy), {"COURTESY__LISTEN__TRANSPARENT": "127.0.0.1:3130"})

    def test_the_proxy_is_exempt_from_the_rules_and_the_crawler_is_not(self):
        spec = pod(self.find("transparent", "Job", "crawler"))
        redirect = self.container("transparent", "Job", "crawler", "redirect")
        crawler = self.container("transparent", "Job", "crawler", "crawler")
        self.assertIn(f"--uid={spec['securityContext']['runAsUser']}", redirect["args"])
        proxy = self.container("transparent", "Job", "crawler", "courtesy")
        self.assertNotIn("runAsUser", proxy["securityContext"])
        self.assertNotIn(crawler["securityContext"]["runAsUser"], [0, spec["securityContext"]["runAsUser"]])
        # What is not redirected is what pods may not reach anyway, unless the operator permits it.
        exempt = {it.removeprefix("--except=") for it in redirect["args"] if it.startswith("--except=")}
        policy = self.find("transparent", "NetworkPolicy", "courtesy-out")
        blocks = [to["ipBlock"] for rule in policy["spec"]["egress"] for to in rule["to"] if "ipBlock" in to]
        closed = {block for it in blocks for block in it.get("except", [])}
        self.assertEqual(exempt, closed | {"fc00::/7", "fe80::/10"})

    def test_a_client_of_the_shared_proxy_reaches_it_and_name_servers_only(self):
        crawler = self.find("shared", "Job", "crawler")
        policies = self.policy_of("shared", crawler)
        self.assertIn(self.find("shared", "NetworkPolicy", "courtesy-names")["spec"], policies)
        (policy,) = (it for it in policies if "Ingress" in it["policyTypes"])
        self.assertEqual((len(policies), policy["ingress"]), (2, []))
        (rule,) = policy["egress"]
        labels = self.find("shared", "StatefulSet", "courtesy")["spec"]["template"]["metadata"]["labels"]
        self.assertTrue(selects(rule["to"][0]["podSelector"], labels))
        self.assertEqual((len(rule["to"]), [it["port"] for it in rule["ports"]]), (1, [3128]))

    def test_names_are_asked_for_at_the_servers_that_clusters_have(self):
        for overlay, kind, owner in self.proxies() + [("shared", "Job", "crawler")]:
            policies = self.policy_of(overlay, self.find(overlay, kind, owner))
            self.assertIn(self.find(overlay, "NetworkPolicy", "courtesy-names")["spec"], policies)
        inside, of_openshift = self.find("shared", "NetworkPolicy", "courtesy-names")["spec"]["egress"]
        pods, of_node = inside["to"]
        for label in ["kube-dns", "coredns", "node-local-dns"]:
            self.assertTrue(selects(pods["podSelector"], {"k8s-app": label}), label)
        self.assertFalse(selects(pods["podSelector"], {}))
        self.assertEqual(of_node, {"ipBlock": {"cidr": "169.254.20.10/32"}})
        self.assertEqual([it["port"] for it in inside["ports"]], [53, 53])
        self.assertEqual([it["port"] for it in of_openshift["ports"]], [5353, 5353])
        self.assertEqual([*of_openshift["to"][0]], ["namespaceSelector"])
        self.assertTrue(of_openshift["to"][0]["namespaceSelector"]["matchLabels"])

    def proxies(self):
        """Each overlay, and what has the pods of its proxies."""
        sidecars = [(overlay, "Job", "crawler") for overlay in ["sidecar", "cluster", "transparent"]]
        return sidecars + [(overlay, "StatefulSet", "courtesy") for overlay in ["shared", "gateway-ha"]]

    def sizes(self, overlay, kind, owner):
        """Of the volume of a proxy's state, of the store and of the log."""
        resource = self.find(overlay, kind, owner)
        settings = tomllib.loads(self.find(overlay, "ConfigMap", "courtesy")["data"]["config.toml"])
        given = environment(self.container(overlay, kind, owner, "courtesy"))
        volumes = {it["name"]: it["emptyDir"]["sizeLimit"] for it in pod(resource)["volumes"] if "emptyDir" in it}
        for claim in resource["spec"].get("volumeClaimTemplates", []):
            volumes[claim["metadata"]["name"]] = claim["spec"]["resources"]["requests"]["storage"]
        store = given.get("COURTESY__STORE__MAX_SIZE", settings["store"]["max_size"])
        log = given.get("COURTESY__AUDIT__RETAIN_SIZE", settings["audit"]["retain_size"])
        return [bytes_of(it) for it in [volumes["state"], store, log]]

    def test_what_a_proxy_keeps_fits_its_volume(self):
        for overlay, kind, owner in self.proxies():
            volume, store, log = self.sizes(overlay, kind, owner)
            # What is written and not closed yet, and the file system's own.
            self.assertLessEqual(store + log, 0.9 * volume, overlay)

    def test_no_pod_is_evicted_for_what_its_volumes_may_hold(self):
        """Volumes count to the sum of the containers' limits, their logs (five files of 10 MiB) to their own."""
        for overlay, kind, owner in self.proxies():
            resource = self.find(overlay, kind, owner)
            stay = [it for it in containers(resource) if it["name"] in ["courtesy", "crawler"]]
            volumes = [it["emptyDir"]["sizeLimit"] for it in pod(resource)["volumes"] if "emptyDir" in it]
            limit = lambda it: bytes_of(it["resources"]["limits"]["ephemeral-storage"])
            self.assertGreaterEqual(sum(map(limit, stay)), sum(map(bytes_of, volumes)) + len(stay) * bytes_of("50Mi"))
            self.assertGreaterEqual(min(map(limit, stay)), bytes_of("64Mi"))

    def test_the_shared_proxy_is_reached_by_its_clients_and_by_monitoring_only(self):
        policies = self.policy_of("shared", self.find("shared", "StatefulSet", "courtesy"))
        (inward,) = (it for it in policies if "Ingress" in it["policyTypes"])
        sources = [(rule["from"], [it["port"] for it in rule["ports"]]) for rule in inward["ingress"]]
        (clients, client_ports), (monitoring, metrics_ports) = sources
        self.assertEqual((clients, client_ports), ([{"podSelector": {"matchLabels": {"courtesy": "client"}}}], [3128]))
        self.assertEqual(([*monitoring[0]], metrics_ports), (["namespaceSelector"], [3129]))
        service = self.find("shared", "Service", "courtesy")
        proxy = self.container("shared", "StatefulSet", "courtesy", "courtesy")
        named = {it["name"]: it["containerPort"] for it in proxy["ports"]}
        for port in service["spec"]["ports"]:
            self.assertEqual(named[port["targetPort"]], port["port"])
        given = environment(proxy)
        self.assertEqual(given["COURTESY__LISTEN__ADMIN"], "0.0.0.0:3129")
        # Off loopback it is not told to everybody.
        self.assertTrue(given["COURTESY__ADMIN__TOKEN_FILE"].startswith(given["CREDENTIALS_DIRECTORY"] + "/"))

    def test_no_proxy_goes_to_the_cluster_or_the_clouds_secrets(self):
        closed = ["10.96.0.1", "172.16.5.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "fd00::1", "fe80::1"]
        for overlay, kind, name in self.proxies():
            policies = self.policy_of(overlay, self.find(overlay, kind, name))
            rules = [rule for it in policies if "Egress" in it["policyTypes"] for rule in it["egress"]]
            blocks = [to["ipBlock"] for rule in rules for to in rule["to"] if "ipBlock" in to]
            reached = lambda address: any(
                address in ipaddress.ip_network(block["cidr"])
                and not any(address in ipaddress.ip_network(it) for it in block.get("except", []))
                for block in blocks
            )
            self.assertEqual([it for it in closed if reached(ipaddress.ip_address(it))], [])
            self.assertTrue(reached(ipaddress.ip_address("93.184.215.14")))
            self.assertTrue(reached(ipaddress.ip_address("2606:2800:21f::1")))

    def test_the_crawlers_of_a_cluster_have_proxies_with_its_engine(self):
        proxy = self.container("cluster", "Job", "crawler", "courtesy")
        alone = self.container("sidecar", "Job", "crawler", "courtesy")
        given = environment(proxy)
        service = self.find("cluster", "Service", "engine")
        (port,) = service["spec"]["ports"]
        self.assertEqual(given["COURTESY__ENGINE__URL"], f"redis://{service['metadata']['name']}:{port['port']}")
        # Without a part of the pace it is not ready: engine.away is "share".
        self.assertFalse({"COURTESY__ENGINE__AWAY", "COURTESY__ENGINE__SHARE"} & given.keys())
        mounted = {it["name"]: it["mountPath"] for it in proxy["volumeMounts"]}
        self.assertEqual(given["COURTESY__ENGINE__PASSWORD_FILE"], mounted["engine"] + "/password")
        # But for the engine it is the sidecar.
        of_engine = lambda it: it.get("name") == "engine"
        kept = {name: value for name, value in proxy.items() if name not in ["env", "volumeMounts"]}
        self.assertEqual(kept, {name: value for name, value in alone.items() if name != "volumeMounts"})
        others = [it for it in proxy["volumeMounts"] if not of_engine(it)]
        self.assertEqual(others, alone["volumeMounts"])

    def test_the_engine_forgets_nothing_and_is_one(self):
        engine = self.find("cluster", "StatefulSet", "engine")
        self.assertEqual(engine["spec"]["replicas"], 1)
        (container,) = containers(engine)
        words = container["args"]
        given = dict(zip(words[::2], words[1::2]))
        self.assertEqual((given["--appendonly"], given["--appendfsync"]), ("yes", "everysec"))
        self.assertEqual((given["--maxmemory"], given["--maxmemory-policy"]), ("1gb", "noeviction"))
        mounted = {it["name"]: it["mountPath"] for it in container["volumeMounts"]}
        self.assertEqual(given["--aclfile"], mounted["users"] + "/users.acl")
        self.assertEqual(given["--dir"], mounted["data"])

    def test_proxies_alone_reach_the_engine(self):
        engine = self.find("cluster", "StatefulSet", "engine")
        (policy,) = self.policy_of("cluster", engine)
        (rule,) = policy["ingress"]
        self.assertEqual(rule["from"], [{"podSelector": {"matchLabels": {"courtesy": "proxy"}}}])
        self.assertEqual([it["port"] for it in rule["ports"]], [6379])
        self.assertEqual((sorted(policy["policyTypes"]), policy["egress"]), (["Egress", "Ingress"], []))
        labels = engine["spec"]["template"]["metadata"]["labels"]
        for overlay, kind, name in [("cluster", "Job", "crawler"), ("gateway-ha", "StatefulSet", "courtesy")]:
            of_proxies = self.policy_of(overlay, self.find(overlay, kind, name))
            to_pods = [rule for it in of_proxies for rule in it.get("egress", []) if "podSelector" in rule["to"][0]]
            (way,) = [it for it in to_pods if "namespaceSelector" not in it["to"][0]]
            self.assertTrue(selects(way["to"][0]["podSelector"], labels))
            self.assertEqual([it["port"] for it in way["ports"]], [6379])

    def test_the_log_has_one_writer(self):
        self.assertEqual(self.find("shared", "StatefulSet", "courtesy")["spec"]["replicas"], 1)

    def test_of_three_gateways_one_is_replaced_at_a_time(self):
        gateway, one = (self.find(overlay, "StatefulSet", "courtesy") for overlay in ["gateway-ha", "shared"])
        self.assertEqual((gateway["spec"]["replicas"], gateway["spec"]["podManagementPolicy"]), (3, "Parallel"))
        self.assertEqual(gateway["spec"]["volumeClaimTemplates"], one["spec"]["volumeClaimTemplates"])
        labels = gateway["spec"]["template"]["metadata"]["labels"]
        budget = self.find("gateway-ha", "PodDisruptionBudget", "courtesy")["spec"]
        self.assertTrue(selects(budget["selector"], labels))
        self.assertEqual(budget["maxUnavailable"], 1)
        apart = pod(gateway)["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        self.assertEqual(apart[0]["podAffinityTerm"]["topologyKey"], "kubernetes.io/hostname")
        for term in apart:
            self.assertTrue(selects(term["podAffinityTerm"]["labelSelector"], labels))
        # The listener is open while Services still lead clients to it; then it drains (25 s).
        given = environment(self.container("gateway-ha", "StatefulSet", "courtesy", "courtesy"))
        delay = int(given["COURTESY__LIMITS__DRAIN_DELAY"].removesuffix("s"))
        self.assertGreaterEqual(delay, 5)
        self.assertGreater(pod(gateway)["terminationGracePeriodSeconds"], delay + 25 + 10)

    def test_the_pods_of_gateways_have_a_headless_service(self):
        gateway = self.find("gateway-ha", "StatefulSet", "courtesy")
        service = self.find("gateway-ha", "Service", gateway["spec"]["serviceName"])["spec"]
        self.assertEqual(service["clusterIP"], "None")
        labels = gateway["spec"]["template"]["metadata"]["labels"]
        self.assertTrue(selects({"matchLabels": service["selector"]}, labels))
        clients = self.find("gateway-ha", "Service", "courtesy")["spec"]
        self.assertNotIn("clusterIP", clients)
        # Else they would be scraped twice.
        self.assertNotIn("metrics", [it["name"] for it in service["ports"]])

    def test_a_gateway_is_the_shared_proxy_with_the_engine_of_a_cluster(self):
        proxy, one = (self.container(it, "StatefulSet", "courtesy", "courtesy") for it in ["gateway-ha", "shared"])
        sidecar = self.container("cluster", "Job", "crawler", "courtesy")
        given = environment(proxy)
        del given["COURTESY__LIMITS__DRAIN_DELAY"]
        self.assertEqual(given, environment(one) | environment(sidecar))
        kept = one.keys() - {"env", "volumeMounts"}
        self.assertEqual({name: proxy.get(name) for name in kept}, {name: one[name] for name in kept})
        of_engine = [it for it in proxy["volumeMounts"] if it not in one["volumeMounts"]]
        self.assertEqual(of_engine, [it for it in sidecar["volumeMounts"] if it["name"] == "engine"])

    def test_no_two_proxies_with_an_engine_have_one_name(self):
        for overlay, kind, owner in self.proxies():
            given = environment(self.container(overlay, kind, owner, "courtesy"))
            if "COURTESY__ENGINE__URL" in given:
                self.assertEqual(given["COURTESY__ENGINE__NAME"], "{metadata.name}")
            settings = tomllib.loads(self.find(overlay, "ConfigMap", "courtesy")["data"]["config.toml"])
            self.assertNotIn("engine", settings)
            self.assertNotIn("node", settings["audit"])

    def test_monitors_find_the_port_and_the_token_of_the_proxies(self):
        """As the Prometheus operator looks for them."""
        (of_gateway,) = (it["spec"] for it in self.monitoring["gateway"])
        of_kind = {it["kind"]: it for it in self.monitoring["sidecar"]}
        of_sidecars, inward = of_kind["PodMonitor"]["spec"], of_kind["NetworkPolicy"]["spec"]
        variables = of_kind["ConfigMap"]
        for overlay, kind, owner in self.proxies():
            resource = self.find(overlay, kind, owner)
            labels = resource["spec"]["template"]["metadata"]["labels"]
            proxy = self.container(overlay, kind, owner, "courtesy")
            given = environment(proxy)
            policies = [it for it in self.policy_of(overlay, resource) if "Ingress" in it["policyTypes"]]
            if kind == "StatefulSet":
                self.assertFalse(selects(of_sidecars["selector"], labels))
                (endpoint,) = of_gateway["endpoints"]
                (port,) = [
                    port["targetPort"]
                    for service in self.rendered[overlay]
                    if service["kind"] == "Service" and selects(of_gateway["selector"], service["metadata"]["labels"])
                    for port in service["spec"]["ports"]
                    if port["name"] == endpoint["port"]
                ]
            else:
                self.assertTrue(selects(of_sidecars["selector"], labels))
                (endpoint,) = of_sidecars["podMetricsEndpoints"]
                port = endpoint["port"]
                # Without the monitor it is on loopback.
                self.assertNotIn("COURTESY__LISTEN__ADMIN", given)
                (more,) = proxy["envFrom"]
                self.assertEqual(more["configMapRef"], {"name": variables["metadata"]["name"], "optional": True})
                given |= variables["data"]
                policies += [inward] if selects(inward["podSelector"], labels) else []
            (number,) = [it["containerPort"] for it in proxy["ports"] if it["name"] == port]
            self.assertEqual(given["COURTESY__LISTEN__ADMIN"], f"0.0.0.0:{number}")
            rules = [rule for it in policies for rule in it["ingress"]]
            monitoring = [rule for rule in rules if [*rule["from"][0]] == ["namespaceSelector"]]
            self.assertEqual([[it["port"] for it in rule["ports"]] for rule in monitoring], [[number]])
            secret = self.secret_of(resource, proxy, given["COURTESY__ADMIN__TOKEN_FILE"])
            self.assertEqual(secret, endpoint["authorization"]["credentials"])
            # Who crawls is not to see it.
            others = [it for it in containers(resource) if it["name"] != "courtesy"]
            mounted = {mount["mountPath"] for it in others for mount in it["volumeMounts"]}
            self.assertNotIn("/run/credentials", mounted)

    def secret_of(self, resource, container, path):
        """The Secret and its key that a file of a container is made of."""
        directory, _, name = path.rpartition("/")
        (mount,) = (it["name"] for it in container["volumeMounts"] if it["mountPath"] == directory)
        (volume,) = (it for it in pod(resource)["volumes"] if it["name"] == mount)
        projected = volume.get("projected", {"sources": [volume]})
        sources = [it["secret"] for it in projected["sources"]]
        (found,) = [
            {"name": source.get("name", source.get("secretName")), "key": item["key"]}
            for source in sources
            for item in source.get("items", [])
            if item["path"] == name
        ]
        return found

    def test_the_page_applies_what_is_there_and_has_its_sizes(self):
        page = read("docs/operate/kubernetes.md")
        applied = {ROOT / it for it in re.findall(r"^\$ kubectl apply -k (\S+)", page, re.MULTILINE)}
        self.assertEqual(applied, {directory for directory, _ in self.all()})
        for where, overlay, kind, owner in [
            ("a crawler's pod", "sidecar", "Job", "crawler"),
            ("`shared`, `gateway-ha`", "gateway-ha", "StatefulSet", "courtesy"),
        ]:
            (row,) = re.findall(rf"^\| {where} \| (.*) \|$", page, re.MULTILINE)
            written = [int(amount) * UNITS[unit] for amount, unit in re.findall(r"(\d+) ([MG]i)B", row)]
            self.assertEqual(written, self.sizes(overlay, kind, owner), where)

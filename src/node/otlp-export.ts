import { OtlpExporter } from '../telemetry/otlp-exporter.js';
import { SpanTracer } from '../telemetry/span-tracer.js';
import type { HostInit } from './host.js';
import type { EclipticNode } from './node.js';

/** Exports spans and metrics where a collector is configured. */
export function otlpExporter({ runtime, otlp: settings }: HostInit, node: EclipticNode): OtlpExporter | undefined {
  if (!settings) return undefined;
  const name = node.network?.name;
  const resource = { 'service.instance.id': node.key, ...(name !== undefined && { 'ecliptic.node.name': name }) };
  const exporter = new OtlpExporter({ runtime, metrics: () => node.metricFamilies(), resource, settings });
  node.addMetrics(() => exporter.families());
  if (runtime.tracer instanceof SpanTracer) runtime.tracer.exportTo((span) => exporter.add(span));
  exporter.start();
  return exporter;
}

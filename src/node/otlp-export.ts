import type { Runtime } from '../runtime/runtime.js';
import { OtlpExporter } from '../telemetry/otlp-exporter.js';
import type { OtlpSettings } from '../telemetry/otlp-settings.js';
import { SpanTracer } from '../telemetry/span-tracer.js';
import type { EclipticNode } from './node.js';

/** Exports spans and metrics where a collector is configured. */
export function otlpExporter(
  { runtime, otlp: settings }: { runtime: Runtime; otlp?: OtlpSettings | undefined },
  node: EclipticNode,
): OtlpExporter | undefined {
  if (!settings) return undefined;
  const name = node.network?.name;
  const resource = { 'service.instance.id': node.key, ...(name !== undefined && { 'ecliptic.node.name': name }) };
  const exporter = new OtlpExporter({ runtime, metrics: () => node.metricFamilies(), resource, settings });
  node.addMetrics(() => exporter.families());
  if (runtime.tracer instanceof SpanTracer) runtime.tracer.exportTo((span) => exporter.add(span));
  exporter.start();
  return exporter;
}

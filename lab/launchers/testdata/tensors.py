import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.constant(1.0)))
task = strategy.cluster_resolver.task_id
print(f"rank {task} of {strategy.num_replicas_in_sync} counts {int(total)}", flush=True)

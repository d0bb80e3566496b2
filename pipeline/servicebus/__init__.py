"""The Spark data source `servicebus`: writes rows through the failover sender, and reads queues by peeking.

    from pipeline.servicebus.source import ServiceBusDataSource
    spark.dataSource.register(ServiceBusDataSource)

It registers by name, in one line, rather than by itself: Spark finds sources only in installed packages whose names
begin with `pyspark_`, not in what is passed with --py-files, and one way that works everywhere is better than two.
docs/spark-source.md has its options, columns and promises.
"""
